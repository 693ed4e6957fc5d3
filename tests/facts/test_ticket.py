from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import examine
from tests.facts.tickets import values
from vdoctor.facts.ticket import TicketFacts, together
from vdoctor.model import Fact

HEALTHY = Path(__file__).parent.parent.parent / "fixtures/healthy"
VOLTA = """\
Collecting environment information...
PyTorch version              : 2.7.1+cu126
GPU models and configuration :
GPU 0: Tesla V100-SXM2-32GB
GPU 1: Tesla V100-SXM2-32GB
vLLM Version                 : 0.10.0
"""
COMMAND = "$ vllm serve acme/chat-7b-awq --quantization awq --dtype bfloat16 -tp 2\n"


def facts(**entries: object) -> dict[str, Fact]:
    return {name.replace("__", "."): Fact(value, "x") for name, value in entries.items()}  # type: ignore[arg-type]


def test_records_of_vllm_are_left_to_others() -> None:
    assert values(TicketFacts(), "INFO 12-01 02:03:04 [core.py:97] GPU 0: NVIDIA L4") == {}


def test_visible_devices_limit_the_count() -> None:
    assert values(TicketFacts(), VOLTA)["gpu.count"] == 2
    assert values(TicketFacts(), VOLTA + "CUDA_VISIBLE_DEVICES=1")["gpu.count"] == 1
    assert values(TicketFacts(), VOLTA + "CUDA_VISIBLE_DEVICES=0,1,2,3")["gpu.count"] == 2
    assert values(TicketFacts(), VOLTA + "CUDA_VISIBLE_DEVICES=")["gpu.count"] == 2


def test_what_vllm_printed_beats_the_ticket() -> None:
    merged = together(facts(vllm__version="0.9.0", gpu__cc=80), facts(model__name="m"), facts(vllm__version="0.9.2"))
    assert {name: fact.value for name, fact in merged.items()} == {
        "vllm.version": "0.9.2",
        "gpu.cc": 80,
        "model.name": "m",
    }


@pytest.mark.parametrize(("asked", "layer"), [("bare", "compose"), ("docker", "docker")])
def test_a_bare_command_stands_inside_the_container_that_is_shown(asked: str, layer: str) -> None:
    merged = together(facts(launch__layer="compose"), facts(launch__layer=asked), {})
    assert merged["launch.layer"].value == layer


def test_gpu_of_a_cpu_backend_decides_nothing() -> None:
    assert "gpu.cc" not in together(facts(gpu__cc=70), {}, facts(launch__device="cpu"))
    assert "gpu.cc" in together(facts(gpu__cc=70), {}, facts(launch__device="cuda"))


def test_facts_alone_name_the_cause() -> None:
    report = examine(VOLTA + COMMAND)
    assert {finding.rule for finding in report.findings} == {"quant.awq-needs-cc75", "env.bf16-asked-for"}
    assert report.verdict == "failed"
    assert report.facts["gpu.cc"].source == "log:4"


def test_an_end_that_needs_them_keeps_its_evidence_in_front() -> None:
    log = "ERROR 12-01 02:03:04 [core.py:9] RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    (first, *_) = examine(VOLTA + log).findings
    assert (first.rule, first.confidence) == ("env.no-kernel-image-old", "certain")


def test_a_forecast_yields_to_what_the_log_shows() -> None:
    log = """\
Traceback (most recent call last):
  File "/srv/app/plugin.py", line 7, in load
    frobnicate()
acme.errors.PluginError: cannot frobnicate the engine
"""
    report = examine(VOLTA + COMMAND + log)
    assert report.findings[0].id == "unknown.error"
    assert {finding.confidence for finding in report.findings[1:]} == {"likely"}


def test_a_start_that_came_further_refutes_a_forecast() -> None:
    log = "INFO 12-01 02:03:04 [kv_cache_utils.py:864] GPU KV cache size: 447,280 tokens\n"
    report = examine(VOLTA + COMMAND + log)
    assert [finding.rule for finding in report.findings if finding.severity == "fatal"] == []


@pytest.mark.parametrize("log", sorted(HEALTHY.glob("*/log.txt")), ids=lambda path: path.parent.name)
def test_a_healthy_log_stays_healthy_behind_any_environment(log: Path) -> None:
    report = examine(VOLTA.encode() + COMMAND.encode() + log.read_bytes())
    assert (report.verdict, [f.id for f in report.findings if f.severity != "info"]) == ("healthy", [])


def test_a_server_that_once_served_refutes_a_forecast_for_its_next_start() -> None:
    log = (HEALTHY / "vllm-0.11.2-warm/log.txt").read_text()
    again = VOLTA + COMMAND + log + "".join(log.splitlines(keepends=True)[:3])
    assert all(finding.evidence for finding in examine(again).findings if finding.severity == "fatal")
