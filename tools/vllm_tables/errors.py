"""Start-up errors of a release that no rule knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vdoctor.rulebase.schema import RuleBase
from vllm_tables.phrases import HOLE
from vllm_tables.texts import Text
from vllm_tables.wordings import Wordings

#: What runs before the server is ready, below vllm/.
STARTUP = (
    *("config", "engine/", "entrypoints/", "executor/", "worker/", "model_executor/model_loader/", "distributed/"),
    *("platforms/", "model_executor/layers/quantization/", "transformers_utils/", "compilation/", "envs.py"),
    *("v1/core/", "v1/engine/", "v1/executor/", "v1/worker/", "utils", "model_executor/layers/fused_moe/"),
    *("v1/attention/", "attention/", "model_executor/models/registry.py", "plugins/", "device_allocator/"),
)
_PRINTED = ("log.error", "log.exception", "log.critical", "parser.error")
# Answers to requests: the server is up.
_ANSWERS = ("HTTPException", "VLLMValidationError", "VLLMNotFoundError", "RequestValidationError")


def unmatched(base: RuleBase, wordings: Wordings) -> Iterator[Text]:
    """The start-up errors among `wordings` that no signal fits, by place."""
    known: set[Text] = set()
    for rule in base.rules:
        for signal in rule.signals:
            if signal.regex is not None:
                known.update(wording.text for wording in wordings.matches(signal.regex))
    yield from sorted(startup_errors({one.text for one in wordings.all} - known), key=lambda text: text.place)


def startup_errors(texts: Iterable[Text]) -> Iterator[Text]:
    for text in texts:
        if text.place.removeprefix("vllm/").startswith(STARTUP) and is_error(text.kind):
            yield text


def is_error(kind: str) -> bool:
    """Exceptions have capitals in their names; of what is printed only errors count."""
    return kind in _PRINTED or (kind[:1].isupper() and kind not in _ANSWERS)


def table(texts: Iterable[Text]) -> Iterator[str]:
    """One line an error: place, what carries it, its words."""
    for text in texts:
        yield f"{text.place:<72} {text.kind:<20} {' '.join(text.words.replace(HOLE, '{}').split())}"
