"""Blocks and tokens against vLLM's own functions of many releases.

releases.json holds what `get_kv_cache_configs` (before 0.11: `get_kv_cache_config`) of each release gave for 64 MiB,
called in Python with these layers; null where the release refused them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vdoctor.budget.groups import Pool, group_pages
from vdoctor.budget.pages import Page
from vdoctor.budget.settings import Settings
from vdoctor.errors import UserError

TOLD = json.loads(Path(__file__).with_name("releases.json").read_text())
FULL = Page("full", 256, 16, geometry=(2, 32))
NEAR, FAR = (Page("window", 256, 16, geometry=(2, 32), span=span) for span in (128, 256))
WIDE = Page("window", 512, 16, geometry=(2, 64), span=128)
LAYERS = {
    "plain": [FULL] * 4,
    "gemma3": [NEAR] * 5 + [FULL] + [NEAR] * 2,
    "half": [NEAR, FULL] * 5 + [NEAR],
    "nohma": [NEAR, FULL] * 3,
    "allwin": [FAR] * 4,
    "mixed": [FULL] * 3 + [WIDE] * 3,
}


def test_many_releases_and_layers() -> None:
    assert len(TOLD) >= 16 and all(len(cases) == 2 * len(LAYERS) for cases in TOLD.values())


@pytest.mark.parametrize("version", TOLD)
def test_blocks_and_tokens(version: str) -> None:
    for case, told in TOLD[version].items():
        name, length, batched = case.split()
        settings = Settings(version=version, hybrid_manager=False if name == "nohma" else None)
        layers = LAYERS[name]
        if told is None:
            with pytest.raises(UserError):
                group_pages(layers, settings)
            continue
        pool = Pool(group_pages(layers, settings), (frozenset(range(len(layers))),), settings, int(batched))
        blocks = pool.block_count([64 << 20])
        assert [blocks, pool.tokens(blocks, int(length))] == told, case
