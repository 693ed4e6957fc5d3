"""Texts that try to be more than text, and reports that hold them everywhere."""

from __future__ import annotations

from dataclasses import replace

from tests.report.reports import FINDING, FIX, REPORT, both, report
from vdoctor.model import Change, Evidence, Exit, Fact, Report, Source, Span

TEXTS = (
    "<script>alert(1)</script>",
    "</script></style></pre></details><img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>' onmouseover='alert(1)",
    "[red]markup[/red]",
    "[link](javascript:alert(1)) ![img](https://evil.example/x.png)",
    "@octocat please look at #1 and GH-2, see vllm-project/vllm#3 or 3f2a9c81d0ab4c5d6e7f8091a2b3c4d5e6f70812",
    "```\n# escaped\n````sh\n~~~",
    "`a` ``b`` ```c",
    "www.evil.example https://evil.example/?q=1 mailto:a@evil.example",
    "**bold** __under__ *it* _it_ ~~gone~~ $x^2$ :skull: <b>b</b> &lt;i&gt; &#64;user | pipe | \\",
    "1. one\n- two\n# three\n> four\n---\n===",
    "url(https://evil.example) expression(alert(1)) @import 'x'; } body{display:none}",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J \x08\x7f \u202eright\u2066 \u200f",
    "--><!-- ]]> <!DOCTYPE x> <?php ?>",
    "|---|\n| a | b |",
    "{{ x }} {% y %} ${z} %s {0}",
    "é 中文，标点。 \ud800",
)


def everywhere(text: str) -> Report:
    """A report with this text at every place that comes from a log, a session or a rule."""
    bad = both(text)
    fix = replace(
        FIX, title=bad, cost=bad, command=f"vllm {text}", change=Change({"--x": text}, {"A": text}, {"--y": text})
    )
    one = replace(
        FINDING,
        title=bad,
        why=bad,
        evidence=(Evidence(1, text, text), Evidence(2, None, text)),
        fixes=(fix, replace(fix, command=None)),
        references=(text,),
        symptoms=(text,),
    )
    return report(
        source=Source("file", text, 3, 4),
        findings=(one, one),
        facts={"model.name": Fact(text, "argv"), "vllm.version": Fact(text, "log:1"), "x": Fact((1, text), text)},
        memory={
            "gpus": [{"index": 0, "name": text, "total": 1.0}],
            text: {text: text},
            "log": {"weights": 1.0, text: 2.0},
        },
        timeline=(Span(text, "launch.config", 0.0, 2.0, 1, 9), Span(text, "kv_init.profile", None, None, 1, 9)),
        command=("vllm", text),
        looks_like=text,
        exit=Exit(1.0, 137, text),
        trials=(replace(REPORT.trials[0], command=text, change=fix.change, finding=text),),
    )
