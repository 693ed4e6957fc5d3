"""Keys and tokens of a command, hidden before it is written down."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "***"
_FLAGS = ("--api-key", "--hf-token")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRETS = ("TOKEN", "API_KEY", "SECRET", "PASSWORD")


def hide(words: Sequence[str]) -> list[str]:
    """The words with `***` for the value of `--api-key`, `--hf-token` and of assignments such as HF_TOKEN=..."""
    shown: list[str] = []
    secret = False
    for word in words:
        name, equal, value = word.partition("=")
        flag = name.replace("_", "-")
        variable = value and _NAME.fullmatch(name) and any(part in name for part in _SECRETS)
        if variable or (equal and flag in _FLAGS):
            shown.append(f"{name}={HIDDEN}")
        else:
            # --api-key takes several keys.
            shown.append(HIDDEN if secret and not word.startswith("-") else word)
        secret = (not equal and flag in _FLAGS) or (secret and not word.startswith("-"))
    return shown
