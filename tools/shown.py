#!/usr/bin/env python3
"""Write what the documents show: outputs of commands in README.md and docs/*.md, and the picture docs/terminal.svg.

A block is shown by running its command in a folder with `vllm.log` and `kv.log` (fixtures), `tiny/` (a model folder) and a `vllm`
that is the simulated server::

    <!-- output [from=REGEX] [to=REGEX] -->
    ```
    $ vdoctor analyze vllm.log
    ...
    ```

`from` and `to` name the first and the last line that is shown; "..." stands for what is left out. The blocks of one
document are run in order, in one folder. With --check nothing is written, and the status is 1 when one is stale; times,
process ids and shares of memory may differ.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "docs" / "recipes" / "README.md")
PICTURE = ROOT / "docs" / "terminal.svg"
#: The log that the documents call vllm.log, and the one of the picture.
LOG = ROOT / "fixtures" / "tp" / "heads-vllm-0.23.0" / "log.txt"
PICTURE_LOG = ROOT / "fixtures" / "oom" / "kv-too-small-vllm-0.11.2" / "log.txt"
WIDTH = 100
_BLOCK = re.compile(
    r"(<!-- output(?P<options>(?: \w+=\S+)*) -->\n```\n\$ (?P<command>[^\n]*)\n)(?P<body>.*?)(?=```\n)", re.DOTALL
)
#: What differs from run to run.
_LOOSE = re.compile(r"peak, host, GiB[^\n]*|\d+\.\d+ s\b|pid=\d+|\d\d-\d\d \d\d:\d\d:\d\d|━+|/\S*/(?=start\b)|[ \t]+")
_TINY = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    """One shown output: its place in the text, its command, what the document says and what the program says."""

    start: int
    end: int
    command: str
    shown: str
    printed: str

    @property
    def current(self) -> bool:
        """The same but for times and the like."""
        return _LOOSE.sub(" ", self.shown) == _LOOSE.sub(" ", self.printed)


@contextlib.contextmanager
def stage() -> Iterator[tuple[Path, dict[str, str]]]:
    """The folder in which commands run, and their environment."""
    with tempfile.TemporaryDirectory(prefix="vdoctor-docs-") as folder:
        place = Path(folder)
        (place / "vllm.log").write_bytes(LOG.read_bytes())
        (place / "kv.log").write_bytes(PICTURE_LOG.read_bytes())
        (place / "tiny").mkdir()
        (place / "tiny" / "config.json").write_text(json.dumps(_TINY))
        (place / "tiny" / "tokenizer.json").write_text("{}")
        (place / "tiny" / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        (place / "bin").mkdir()
        for name, module in (("vdoctor", "vdoctor"), ("vllm", "vdoctor.demo.server")):
            script = place / "bin" / name
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n')
            script.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "LINES", "LC_ALL")}
        yield (
            place,
            kept
            | {
                "PATH": f"{place / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
                "PYTHONPATH": str(ROOT),
                "COLUMNS": str(WIDTH),
                "LANG": "C.UTF-8",
                "VDOCTOR_DEMO_SPEED": "20",
                "CUDA_VISIBLE_DEVICES": "",
            },
        )


def blocks(text: str) -> list[Block]:
    """The outputs that a document shows, each with what its command prints now."""
    found = []
    with stage() as (place, env):
        for match in _BLOCK.finditer(text):
            options = dict(option.split("=", 1) for option in match["options"].split())
            done = subprocess.run(
                ["sh", "-c", match["command"]], cwd=place, env=env, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
            )  # fmt: skip
            printed = cut(done.stdout.decode("utf-8", "replace"), options.get("from"), options.get("to"))
            found.append(Block(match.start("body"), match.end("body"), match["command"], match["body"], printed))
    return found


def cut(text: str, first: str | None, last: str | None) -> str:
    """The lines from the one that matches `first` to the one that matches `last`, with "..." for the rest."""
    lines = [line for line in text.splitlines() if not line.startswith("not looked at: ")]
    while lines and not lines[-1].strip():
        lines.pop()
    begin = _find(lines, first, 0) if first else 0
    end = _find(lines, last, begin) if last else len(lines) - 1
    shown = [*(["..."] if begin else []), *lines[begin : end + 1], *(["..."] if end + 1 < len(lines) else [])]
    return "".join(f"{line}\n" for line in shown)


def _find(lines: list[str], pattern: str, start: int) -> int:
    at = next((at for at in range(start, len(lines)) if re.search(pattern, lines[at])), None)
    if at is None:
        raise SystemExit(f"no line matches {pattern!r}:\n" + "\n".join(lines))
    return at


def picture() -> str:
    """What `vdoctor analyze` shows on a terminal with colours, as SVG that loads nothing from elsewhere."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    from vdoctor.commands.many import examine, logs
    from vdoctor.launch import options
    from vdoctor.report.text import render
    from vdoctor.store import load_rules

    (log,) = logs([str(PICTURE_LOG)])
    report = examine(log, load_rules(), options.load(), alone=True).report  # type: ignore[arg-type]
    assert report is not None
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for line in Text.from_ansi("$ vdoctor analyze vllm.log\n" + render(report, color=True, width=WIDTH)).split("\n"):
        # As a terminal does with a command that is longer than its width.
        for piece in line.divide(range(WIDTH, len(line), WIDTH)):
            console.print(piece, soft_wrap=True)
    console.print()
    form = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("Fira Code, monospace", "'DejaVu Sans Mono', Menlo, Consolas, monospace")
    return console.export_svg(title="vdoctor analyze", code_format=form, unique_id="vdoctor")


def words(svg: str) -> str:
    """The text of a picture, without its lines and colours."""
    return " ".join(unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))).split())


def main(argv: list[str]) -> int:
    """0 written or current, 1 stale."""
    check = "--check" in argv
    stale = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for block in reversed(blocks(text) if "<!-- output" in text else []):
            if not block.current:
                stale.append(f"{path.name}: $ {block.command}")
                text = text[: block.start] + block.printed + text[block.end :]
        if not check:
            path.write_text(text, encoding="utf-8")
    drawn = picture()
    if not PICTURE.exists() or words(PICTURE.read_text(encoding="utf-8")) != words(drawn):
        stale.append(PICTURE.name)
        if not check:
            PICTURE.write_text(drawn, encoding="utf-8")
    for one in stale:
        print(f"{one} {'is stale: make docs' if check else 'written'}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
