"""Options of `vdoctor estimate`: its own, and those of `vllm serve` that matter to memory under their own names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from vdoctor.cli.completing import files
from vdoctor.cli.numbers import FiniteRange

F = TypeVar("F", bound=Callable[..., Any])

#: As in vdoctor/budget/presets.py, which --help must not load.
PRESET_NAMES = ("24gb", "2x24gb", "8x80gb", "unified-32gb")
_VALUES = (
    "--max-model-len", "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--kv-cache-dtype",
    "--block-size", "--gpu-memory-utilization", "--kv-cache-memory-bytes", "--max-num-seqs", "--max-num-batched-tokens",
    "--num-gpu-blocks-override", "--dtype", "--quantization", "--mamba-ssm-cache-dtype",
    "--speculative-config", "--max-loras", "--max-lora-rank",
)  # fmt: skip
_SWITCHES = (
    "--enforce-eager", "--enable-prefix-caching", "--enable-expert-parallel", "--disable-hybrid-kv-cache-manager",
    "--enable-lora",
)  # fmt: skip


def estimate_options(function: F) -> F:
    """All of them; what `vllm serve` takes arrives in one mapping, `flags`."""

    def gather(**options: Any) -> Any:
        names = {_field(name): name for name in (*_VALUES, *_SWITCHES)}
        flags = {names[field]: options.pop(field) for field in list(options) if field in names}
        return function(flags={name: value for name, value in flags.items() if value is not None}, **options)

    gather.__doc__, gather.__name__ = function.__doc__, function.__name__
    wrapped: Any = gather
    for option in reversed((*_own(), *_serve())):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def _field(name: str) -> str:
    return name[2:].replace("-", "_")


def _serve() -> list[Callable[[F], F]]:
    return [click.option(name, metavar="VALUE", help="As `vllm serve` takes it.") for name in _VALUES] + [
        click.option(f"{name}/--no-{name[2:]}", default=None, help="As `vllm serve` takes it.") for name in _SWITCHES
    ]


def _own() -> list[Callable[[F], F]]:
    formats, languages = click.Choice(["text", "json", "markdown"]), click.Choice(["en", "zh"])
    memory = "Memory of each GPU [default: of this machine]."
    release = "Count as this release does [default: the newest known]."
    return [
        click.option("--gpu-memory", type=FiniteRange(0.001, 100_000), metavar="GIB", help=memory),
        click.option("--gpus", type=click.IntRange(1, 4096), metavar="N", help="How many GPUs there are."),
        click.option("--vllm-version", "version", metavar="VERSION", help=release),
        click.option("--platform", type=click.Choice(["cuda", "cpu"]), help="Build of vLLM [default: cuda]."),
        click.option(
            "--online", is_flag=True, help="Ask the hub (HF_ENDPOINT) about a model that is not on this disk."
        ),
        click.option("--preset", type=click.Choice(PRESET_NAMES), help="Print a start command for this machine."),
        click.option("--format", "form", type=formats, default="text", show_default=True, help="Form of the result."),
        click.option(
            "--output",
            metavar="FILE",
            shell_complete=files,
            help="Write the result to FILE instead of standard output.",
        ),
        click.option("--lang", type=languages, help="Language of the texts [default: from the locale]."),
    ]
