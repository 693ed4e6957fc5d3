"""Errors that end a command with a message for the user instead of a traceback."""

from __future__ import annotations


class UserError(Exception):
    """Wrong usage or unreadable input: exit status 2.

    `what` names the fault and the place, `hint` says what to do next.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class FileFault(UserError):
    """A file of a model that no vLLM could read. `kind` is one of FAULTS, `file` the file's path."""

    def __init__(self, what: str, hint: str, kind: str, file: str) -> None:
        super().__init__(what, hint)
        self.kind = kind
        self.file = file


#: What can be wrong with the files of a model: the words of the fact model.faults.
FAULTS = (
    *("pointer", "cut-off", "bad-header", "empty", "missing-shards", "no-weights"),
    *("bad-json", "no-config", "no-type", "no-tokenizer"),
)


class RuleError(UserError):
    """A rule file that cannot be used. One instance lists every fault found: place, reason, help."""
