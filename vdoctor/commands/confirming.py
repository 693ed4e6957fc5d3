"""How a user wants a fix to be confirmed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Confirming:
    """How to confirm: minutes for the budget, seconds for one trial."""

    mode: Literal["ask", "auto", "never"] = "ask"
    max_trials: int = 12
    trial_timeout: float = 1200.0
    budget: float = 60.0
    dry_run: bool = False
    measure: bool = False
    only: tuple[str, ...] = ()
