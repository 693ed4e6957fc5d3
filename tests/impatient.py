"""`vdoctor` that takes a shorter --stall-after than users may ask for: `python impatient.py watch --stall-after 1 ...`.

Its stand-ins do nothing at all from their first moment on, so that no second of theirs looks like a stall by mistake.
"""

from __future__ import annotations

from vdoctor.cli import main
from vdoctor.commands import watch

if __name__ == "__main__":
    watch.LEAST = 0.0
    main()
