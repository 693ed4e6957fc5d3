"""A rule base of two rules, and logs that they know."""

from __future__ import annotations

from vdoctor.rulebase.loader import load

_RULE = """
schema = 1
id = "{id}"
cause = "{id}"
status = "test"
references = ["https://example.org"]
[[signal]]
regex = '{regex}'
[[fix]]
id = "change"
safety = "safe"
changes = {{ flags = {{ "--max-num-seqs" = "8" }} }}
[text.en]
title = "t"
cause = "c"
fix.change = "f"
[text.zh]
title = "题"
cause = "因"
fix.change = "修"
"""
_RULE_TEXTS = [
    ("oom/kv-none.toml", _RULE.format(id="oom.kv-none", regex="No available memory for the cache blocks")),
    ("oom/weights.toml", _RULE.format(id="oom.weights", regex="the weights do not fit")),
]
RULES = load(_RULE_TEXTS)
BANNER = "INFO 12-01 00:00:00 [api_server.py:1] vLLM API server version 0.11.0"
ENGINE = "INFO 12-01 00:00:01 [core.py:9] Initializing a V1 LLM engine (v0.11.0) with config: model='m'"
READY = "INFO:     Application startup complete."
SAME = "ValueError: No available memory for the cache blocks."
OTHER = "RuntimeError: the weights do not fit"
BEFORE = "\n".join([BANNER, ENGINE, SAME]) + "\n"
