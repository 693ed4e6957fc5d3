"""Reading the tables of a rule file: types are checked, all faults are collected with their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Faults:
    """Collects `place: key: reason` with a help line each."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.found: list[str] = []

    def add(self, key: str, reason: str, help_text: str = "") -> None:
        """Note a fault at `key`."""
        text = f"{self.place}: {key}: {reason}"
        self.found.append(text + (f"\n  help: {help_text}" if help_text else ""))


class Fields:
    """One table. Each getter checks the type and notes a fault instead of raising."""

    def __init__(self, table: Mapping[str, Any], key: str, faults: Faults, allowed: str) -> None:
        self._table = table
        self._key = key
        self._faults = faults
        names = allowed.split()
        for name in table:
            if name not in names:
                faults.add(self._at(name), "unknown key", f"known keys: {', '.join(sorted(names))}")

    def _at(self, name: str) -> str:
        return f"{self._key}.{name}" if self._key else name

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def raw(self, name: str) -> Any:
        """The value as it stands, None when absent."""
        return self._table.get(name)

    def text(self, name: str, *, required: bool = False, choices: tuple[str, ...] = ()) -> str | None:
        """A non-empty string."""
        value = self._table.get(name)
        if value is None:
            if required:
                self._faults.add(self._at(name), "missing", f"add {name} = '...'")
            return None
        if not isinstance(value, str) or not value:
            self._faults.add(self._at(name), f"must be a non-empty string, not {value!r}")
            return None
        if choices and value not in choices:
            self._faults.add(self._at(name), f"{value!r} is not allowed", f"one of: {', '.join(choices)}")
            return None
        return value

    def flag(self, name: str) -> bool:
        """A boolean, false when absent."""
        value = self._table.get(name, False)
        if not isinstance(value, bool):
            self._faults.add(self._at(name), f"must be true or false, not {value!r}")
            return False
        return value

    def count(self, name: str) -> int:
        """A whole number of 1 to 12, 1 when absent."""
        value = self._table.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 12:
            self._faults.add(self._at(name), f"must be a whole number of 1 to 12, not {value!r}")
            return 1
        return value

    def texts(self, name: str, *, choices: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of strings."""
        value = self._table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._faults.add(self._at(name), f"must be a list of strings, not {value!r}")
            return ()
        for item in value:
            if choices and item not in choices:
                self._faults.add(self._at(name), f"{item!r} is not allowed", f"of: {', '.join(choices)}")
        return tuple(value)

    def mapping(self, name: str) -> dict[str, Any]:
        """A table with string keys."""
        value = self._table.get(name, {})
        if not isinstance(value, dict):
            self._faults.add(self._at(name), f"must be a table, not {value!r}")
            return {}
        return value

    def tables(self, name: str) -> list[Mapping[str, Any]]:
        """A list of tables."""
        value = self._table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self._faults.add(self._at(name), "must be a list of tables", f"write [[{name}]]")
            return []
        return value
