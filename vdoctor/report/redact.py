"""Redaction: everything private in a report or a log under a stable name, everything that matters for vLLM kept.

What is replaced: secrets, user names and home folders, e-mail addresses, host names, IP and MAC addresses, UUIDs and
serial numbers of GPUs, local folders and private names of models. Prompts and answers are dropped. What stays: versions,
hashes, shapes, ports, local addresses, names of public models, places in source files, times, sizes, process ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from ahocorasick_rs import AhoCorasick, MatchKind

from vdoctor.model import Change, Fact, Report
from vdoctor.report.hosts import hide_addresses, hide_hosts
from vdoctor.report.model_names import ModelNames, hide_name
from vdoctor.report.places import hide_logins, hide_models, hide_users, model_path
from vdoctor.report.prompts import drop_prompts
from vdoctor.report.pseudonyms import Pseudonyms
from vdoctor.report.secrets import Secrets, is_secret_name
from vdoctor.report.signs import signs, whole

T = TypeVar("T")

#: Fields that hold words of vdoctor's own: ids, names of facts, references, texts of rules are not among them.
_OWN = frozenset(
    {
        "id",
        "rule",
        "severity",
        "confidence",
        "safety",
        "references",
        "symptoms",
        "not_evaluated",
        "verdict",
        "kind",
        "generation",
    }
)
_ROUNDS = 4
_MODEL_OPTIONS = frozenset(
    {"--model", "serve", "--tokenizer", "--download-dir", "--speculative-model", "-m", "--served-model-name"}
)
_MODEL_FACTS = frozenset({"model.name", "model.tokenizer", "model.path", "model.lora"})


class Redactor:
    """Replaces what is private in texts that come one after another; the same value gets the same name."""

    def __init__(self) -> None:
        self.names = Pseudonyms()
        self._secrets = Secrets(self.names)
        self._models = ModelNames(self.names)
        self._finder: AhoCorasick | None = None
        self._values: list[str] = []

    def learn(self, texts: Iterable[str]) -> None:
        """Look at texts that will be redacted later: a name that only a late line gives away is hidden in all."""
        before = self.names.replaced.copy()
        secrets, self._secrets = self._secrets, Secrets(self.names)
        models, self._models = self._models, ModelNames(self.names)
        for text in texts:
            for line in text.split("\n"):
                self._line(line)
        self._secrets, self._models = secrets, models
        self.names.replaced = before

    def text(self, text: str) -> str:
        """A text of one or more lines; the number of lines stays. Redacting again changes nothing."""
        if "\n" in text:
            return "\n".join(self.line(line) for line in text.split("\n"))
        return self.line(text)

    def line(self, line: str) -> str:
        """One line; lines of a log must come in their order, since some secrets reach over several."""
        line = whole(line)
        done = self._everywhere(self._line(line))
        for _ in range(_ROUNDS):
            if done == line:
                break
            # What was replaced may lay bare what stood beside it.
            line, done = done, self._everywhere(self._line(done))
        return done

    def words(self, words: Sequence[str]) -> list[str]:
        """A command line in words: what an option takes stands in a word of its own."""
        done: list[str] = []
        option = ""
        for word in words:
            if word.startswith("-") or not option:
                shown = self.text(word)
            elif is_secret_name(option):
                shown = self.names.name("secret", word, everywhere=len(word) >= 8)
            elif option in _MODEL_OPTIONS:
                shown = self.text(self._model(word))
            elif option == "--lora-modules" and "=" in word:
                shown = "=".join(self.text(self._model(part)) for part in word.split("=", 1))
            else:
                # The option before tells what the word is: --host gpu01.
                shown = (
                    self.text(f"{option} {word}")[len(option) + 1 :]
                    if option.startswith("--host") or "addr" in option
                    else self.text(word)
                )
            done.append(shown)
            if word.startswith("-"):
                option = "" if "=" in word else word
            elif not is_secret_name(option) and option not in ("--served-model-name", "--lora-modules"):
                # --api-key takes several values, and so do these.
                option = word if word in _MODEL_OPTIONS else ""
        return done

    def value(self, value: Any, name: str = "") -> Any:
        """Any plain data (of JSON, of a dataclass's field) with the texts in it redacted; `name` is its key."""
        if isinstance(value, str):
            if name and is_secret_name(name) and value:
                return self.names.name("secret", value, everywhere=len(value) >= 8)
            if name.startswith("--"):
                return self.words([name, value])[1]
            return self._keyed(value, name)
        if isinstance(value, Mapping):
            return {self._key(key): self.value(one, str(key)) for key, one in value.items()}
        if isinstance(value, tuple | list):
            if value and all(isinstance(one, str) for one in value):
                words: list[Any] = self.words(value)
            else:
                words = [self.value(one, name) for one in value]
            return tuple(words) if isinstance(value, tuple) else words
        if isinstance(value, Fact) and isinstance(value.value, str):
            told = self._model(value.value) if name in _MODEL_FACTS else value.value
            return replace(value, value=self.value(told, name.rpartition(".")[2]))
        if is_dataclass(value) and not isinstance(value, type):
            return self.record(value)
        return value

    def record(self, record: T) -> T:
        """A frozen dataclass with the texts in it redacted."""
        changed: dict[str, Any] = {}
        for field in fields(record):  # type: ignore[arg-type]
            old = getattr(record, field.name)
            if field.name not in _OWN and (new := self.value(old)) != old:
                changed[field.name] = new
        return replace(record, **changed) if changed else record  # type: ignore[type-var]

    def _model(self, name: str) -> str:
        """A word that names a model: a folder, a repository, or a name of its own."""
        path = model_path(name, self.names)
        return hide_name(path, self.names) if path == name else path

    def _key(self, key: Any) -> Any:
        """Keys are names of ours, or paths (`disk_free`)."""
        return self.text(key) if isinstance(key, str) and ("/" in key or "@" in key or "\\" in key) else key

    def _keyed(self, value: str, name: str) -> str:
        """The key says what a short value is: `hostname`, `USER`."""
        if name.isidentifier() and value and not any(c.isspace() for c in value):
            whole = self.text(f"{name}={value}")
            if whole.startswith(f"{name}="):
                return whole[len(name) + 1 :]
        return self.text(value)

    def _line(self, line: str) -> str:
        names, seen = self.names, signs(line)
        line = self._secrets.line(drop_prompts(line, names, seen), seen)
        line = hide_logins(hide_addresses(line, names, seen), names, seen)
        line = self._models.line(hide_models(line, names, seen), seen)
        line = hide_users(line, names, seen)
        return hide_hosts(line, names, seen)

    def _everywhere(self, text: str) -> str:
        """Learned values wherever they stand as a word of their own."""
        if len(self._values) != len(self.names.learned):
            self._values = list(self.names.learned)
            self._finder = AhoCorasick(self._values, matchkind=MatchKind.LeftmostLongest)
        if self._finder is None:
            return text
        parts: list[str] = []
        at = 0
        for index, start, end in self._finder.find_matches_as_indexes(text):
            kind, name = self.names.learned[self._values[index]]
            if _is_word(text, start, end, kind):
                self.names.replaced[kind] += 1
                parts += (text[at:start], name)
                at = end
        return "".join((*parts, text[at:])) if parts else text


def _is_word(text: str, start: int, end: int, kind: str) -> bool:
    """No letter or digit beside it; a folder must not go on with another name (`/m/a-2` is not in `/m/a`)."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if kind == "model-path":
        return not (before.isalnum() or (before in ("/", ".") and before)) and not (
            after.isalnum() or (after in ("-", "_") and after)
        )
    return not (before.isalnum() or after.isalnum())


def redact(report: Report, redactor: Redactor | None = None) -> Report:
    """The report with everything private under a stable name."""
    redactor = redactor or Redactor()
    redactor.learn(_texts(report))
    return redactor.record(report)


def _texts(value: Any) -> Iterable[str]:
    """All texts of a report, evidence and commands included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Change):
        for changes in (value.flags, value.env, value.container):
            yield from (f"{name}={new}" for name, new in changes.items())
    elif isinstance(value, Mapping):
        for name, one in value.items():
            if isinstance(one, Fact) and name in _MODEL_FACTS:
                yield f"model={one.value}"
            yield from (f"{name}={text}" if isinstance(one, str) else text for text in _texts(one))
    elif isinstance(value, tuple | list):
        if value and all(isinstance(one, str) for one in value):
            yield " ".join(value)
        for one in value:
            yield from _texts(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.name not in _OWN:
                yield from _texts(getattr(value, field.name))
