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


class RuleError(UserError):
    """A rule file that cannot be used. One instance lists every fault found: place, reason, help."""
