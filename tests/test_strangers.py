"""Logs of other programs: no rule fires, and the report says what they look like."""

from __future__ import annotations

import random

import pytest

from tests.cases import examine

WORDS = [
    "order",
    "user",
    "cart",
    "invoice",
    "session",
    "shard",
    "index",
    "cache",
    "queue",
    "worker",
    "batch",
    "payment",
    "report",
    "upload",
    "thumbnail",
]


def nginx(r: random.Random) -> str:
    host = f"10.{r.randrange(9)}.{r.randrange(99)}.{r.randrange(99)}"
    return (
        f'{host} - - [12/Mar/2026:10:{r.randrange(60):02d}:{r.randrange(60):02d} +0000] "GET /{r.choice(WORDS)}/{r.randrange(999)}'
        f' HTTP/1.1" {r.choice([200, 204, 301, 404, 499, 500, 502])} {r.randrange(9999)} "https://shop.example/" "Mozilla/5.0"'
    )


def postgres(r: random.Random) -> str:
    level = r.choice(["LOG", "ERROR", "FATAL", "WARNING"])
    text = r.choice(
        [
            'relation "orders" does not exist at character 15',
            "checkpoint complete: wrote 41 buffers (0.3%)",
            "canceling statement due to statement timeout",
            "sorry, too many clients already",
            "could not connect to the primary server: Connection refused",
        ]
    )
    return f"2026-03-12 10:{r.randrange(60):02d}:{r.randrange(60):02d}.{r.randrange(999):03d} UTC [{r.randrange(9999)}] {level}:  {text}"


def java(r: random.Random) -> str:
    name = r.choice(
        ["NullPointerException", "OutOfMemoryError: Java heap space", "SocketTimeoutException: Read timed out"]
    )
    head = f"2026-03-12 10:00:{r.randrange(60):02d} ERROR [main] c.e.{r.choice(WORDS)}.Service - failed"
    return f"{head}\njava.lang.{name}\n\tat com.example.{r.choice(WORDS)}.run(Service.java:{r.randrange(400)})\n\tat java.base/Thread.run(Thread.java:840)"


def django(r: random.Random) -> str:
    error = r.choice(
        [
            "KeyError: 'id'",
            "ValueError: invalid literal for int() with base 10: ''",
            "django.db.utils.OperationalError: database is locked",
            "PermissionError: [Errno 13] Permission denied: 'report.pdf'",
        ]
    )
    return f'[12/Mar/2026 10:00:{r.randrange(60):02d}] ERROR [django.request:241] Internal Server Error: /{r.choice(WORDS)}/\nTraceback (most recent call last):\n  File "/srv/app/views.py", line {r.randrange(300)}, in {r.choice(WORDS)}\n    return render(request)\n{error}'


def kubernetes(r: random.Random) -> str:
    reason = r.choice(["Scheduled", "Pulled", "BackOff", "Unhealthy", "FailedScheduling"])
    return f"{r.randrange(9)}m{r.randrange(59)}s  {r.choice(['Normal', 'Warning'])}  {reason}  pod/{r.choice(WORDS)}-7d9f8b6c5-x2k4q  Readiness probe failed: HTTP probe failed with statuscode: 503"


def golang(r: random.Random) -> str:
    return f'time="2026-03-12T10:00:{r.randrange(60):02d}Z" level={r.choice(["info", "warning", "error"])} msg="{r.choice(WORDS)} sync failed" error="context deadline exceeded" attempt={r.randrange(9)}'


def training(r: random.Random) -> str:
    return f"epoch {r.randrange(9)}:  {r.randrange(100)}%|███       | {r.randrange(99)}/312 [00:{r.randrange(59):02d}<01:10,  3.70it/s] loss={r.random():.3f}"


def boot(r: random.Random) -> str:
    device = r.choice(
        [
            "usb 1-4: new high-speed USB device",
            "EXT4-fs (sda1): mounted filesystem",
            "e1000e: eth0 NIC Link is Up 1000 Mbps",
        ]
    )
    return f"[{r.randrange(99):5d}.{r.randrange(999999):06d}] {device} number {r.randrange(9)}"


def prose(r: random.Random) -> str:
    return f"The {r.choice(WORDS)} of the {r.choice(WORDS)} was late again; please look at the {r.choice(WORDS)} by Friday."


def compiler(r: random.Random) -> str:
    return f"src/{r.choice(WORDS)}.c:{r.randrange(900)}:{r.randrange(80)}: {r.choice(['warning: unused variable', 'error: expected ; before', 'note: declared here'])} [-Wall]"


KINDS = (nginx, postgres, java, django, kubernetes, golang, training, boot, prose, compiler)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_rule_fires_on_another_program(kind, seed: int) -> None:
    r = random.Random(f"{kind.__name__} {seed}")
    text = "\n".join(kind(r) for _ in range(r.randrange(5, 80))) + "\n"
    report = examine(text)
    assert (report.verdict, [finding.rule for finding in report.findings]) == ("not_vllm", [])
