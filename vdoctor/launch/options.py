"""TEMPORARY placeholder until the table-backed module replaces this file."""
from __future__ import annotations
from dataclasses import dataclass
@dataclass(frozen=True, slots=True)
class Option:
    name: str
    aliases: tuple[str, ...]
    kind: str
    default: object
    choices: tuple[str, ...] | None
_S = {"-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size", "-q": "--quantization"}
class OptionTable:
    def lookup(self, flag: str, version: str | None, *, allow_abbrev: bool = False) -> Option | None:
        n = _S.get(flag, flag.replace("_", "-"))
        if n in ("--enable-metrics",): return None
        return Option(n, (), "flag" if n.startswith(("--enable", "--enforce", "--disable", "--no-")) else "value", None, None)
    def exists(self, flag: str, version: str | None) -> bool | None: return None
    def nearest(self, flag: str, version: str | None, *, limit: int = 3) -> list[str]: return []
    def span(self, flag: str) -> tuple[str, str] | None: return None
def load() -> OptionTable: return OptionTable()
