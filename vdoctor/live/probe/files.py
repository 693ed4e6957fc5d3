"""Files that a command names: the model's folder, the chat template, the config file."""

from __future__ import annotations

from pathlib import Path

from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import text_of
from vdoctor.live.probe.finding import Seen
from vdoctor.live.probe.target import local_model
from vdoctor.model import Launch

#: A template that holds one of these is given in place, not as a path (vllm/entrypoints/chat_utils.py: JINJA_CHARS).
_INLINE = ("{", "}", "\n")


def files(launch: Launch, options: OptionTable, model: str | None) -> Seen:
    """Facts about files that are not there; relative paths count from here, as they will for the server."""
    seen = Seen()
    folder = local_model(launch, model)
    if folder is not None and not folder.exists():
        seen.add("model.path", str(folder), "argv")
        seen.add("model.path_missing", True, f"probe:{folder}")
    template = text_of(launch, "--chat-template", options)
    if template and not any(mark in template for mark in _INLINE):
        seen.add("api.template", template, "argv")
        # A bare word may be a template that vLLM brings along; a path never is.
        missing = not Path(template).expanduser().is_file() and ("/" in template or template.endswith(".jinja"))
        seen.add("api.template_missing", missing, f"probe:{template}")
    config = text_of(launch, "--config", options)
    if config:
        seen.add("args.config_file", config, "argv")
        seen.add("args.config_missing", not _exists(config), f"probe:{config}")
    return seen


def _exists(name: str) -> bool:
    """vLLM opens the path as it is written; one that cannot be asked about counts as there."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return True
