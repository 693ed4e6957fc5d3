"""`python3 tools/vllm_tables`, from a checkout, whether vdoctor is installed or not."""

from __future__ import annotations

import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOOLS), str(TOOLS.parent)]

from vllm_tables.command import main  # noqa: E402

raise SystemExit(main())
