"""vdoctor: the cold-start and out-of-memory doctor for vLLM."""

__version__ = "0.1.0"
