"""The texts that a release may print: its string constants, with holes where values go in.

Docstrings and constants without a space are no messages.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

from vllm_tables.phrases import HOLE, Walk

#: Raised whenever the reading below changes: what was kept of an earlier one is then read again.
FORMAT = 3

_FEWEST_LETTERS = 6


@dataclass(frozen=True, slots=True)
class Text:
    """`kind`: the exception that carries the text, ``log.error`` and the like, or nothing; `place`: path:line."""

    kind: str
    words: str
    place: str


class Reader:
    """Reads trees. A file that a release shares with one read before is not read again."""

    def __init__(self, trees: Path) -> None:
        self._trees = trees
        self._files: dict[tuple[str, int], tuple[Text, ...]] = {}

    def texts(self, release: str) -> list[Text]:
        """All texts of a release, by file. They are kept beside the tree: reading one takes a minute."""
        kept = self._trees / f"{release}.texts.json"
        if (found := _kept(kept)) is not None:
            return found
        root = self._trees / release
        texts = [text for path in sorted(root.rglob("*.py")) for text in self._file(path, root)]
        kept.write_text(json.dumps({"format": FORMAT, "texts": [astuple(text) for text in texts]}), encoding="utf-8")
        return texts

    def _file(self, path: Path, root: Path) -> tuple[Text, ...]:
        name, source = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        key = (name, hash(source))
        if key not in self._files:
            self._files[key] = tuple(texts_of_source(source, name))
        return self._files[key]


def _kept(path: Path) -> list[Text] | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [Text(*row) for row in document["texts"]] if document["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def texts_of_source(source: str, name: str) -> Iterator[Text]:
    """The texts of one file; each once for each kind."""
    seen: set[tuple[str, str]] = set()
    for kind, words, line in Walk().texts(ast.parse(source)):
        if _is_message(words) and (kind, words) not in seen:
            seen.add((kind, words))
            yield Text(kind, words, f"{name}:{line}")


def _is_message(words: str) -> bool:
    return " " in words.strip() and sum(map(str.isalpha, words)) - words.count(HOLE) >= _FEWEST_LETTERS
