"""vdoctor: the cold-start and out-of-memory doctor for vLLM."""

from __future__ import annotations

__version__ = "0.1.0"
