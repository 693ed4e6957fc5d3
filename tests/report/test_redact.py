"""Redaction: what is private goes, what a diagnosis needs stays."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases, examine
from tests.report.planted import LOOKALIKES, SECRETS
from tests.report.reports import LONG, REPORT, finding, report
from vdoctor.model import Change, Evidence, Fact, Trial
from vdoctor.report.redact import Redactor, redact

TOGETHER = "\n".join(line for _, line in (*SECRETS, *LOOKALIKES))


def test_lists_are_as_long_as_promised() -> None:
    assert len({secret for secret, _ in SECRETS}) >= 60
    assert len({kept for kept, _ in LOOKALIKES}) >= 40
    assert all(value in line for value, line in (*SECRETS, *LOOKALIKES))


@pytest.mark.parametrize(("secret", "line"), SECRETS)
def test_secret_is_gone(secret: str, line: str) -> None:
    assert secret not in Redactor().text(line)


@pytest.mark.parametrize(("kept", "line"), LOOKALIKES)
def test_lookalike_stays(kept: str, line: str) -> None:
    assert kept in Redactor().text(line)


def test_secrets_go_and_lookalikes_stay_in_one_text() -> None:
    redactor = Redactor()
    redactor.learn([TOGETHER])
    done = redactor.text(TOGETHER)
    assert [secret for secret, _ in SECRETS if secret in done] == []
    assert [kept for kept, _ in LOOKALIKES if kept not in done] == []
    assert done.count("\n") == TOGETHER.count("\n")


def test_same_value_has_the_same_name() -> None:
    redactor = Redactor()
    done = redactor.text(
        "alina@gpu-node-7:~$ ssh alina@10.0.0.5\ngpu-node-7:12:34 [0] NCCL INFO 10.0.0.5 10.0.0.6 /home/alina/x\nowner alina on gpu-node-7.lab.internal"
    )
    assert done == (
        "user-1@host-1:~$ ssh user-1@ip-1\nhost-1:12:34 [0] NCCL INFO ip-1 ip-2 /home/user-1/x\nowner user-1 on host-1"
    )
    assert redactor.names.distinct() == {"user": 1, "host": 1, "ip": 2}


def test_name_that_only_a_late_line_gives_away_is_hidden_in_the_first() -> None:
    redactor = Redactor()
    lines = ["node gpu-node-7 is up", "HOSTNAME=gpu-node-7"]
    redactor.learn(lines)
    assert [redactor.line(line) for line in lines] == ["node host-1 is up", "HOSTNAME=host-1"]


@given(
    st.lists(st.sampled_from([line for _, line in (*SECRETS, *LOOKALIKES)]) | st.text(max_size=40), max_size=6).map(
        "".join
    )
)
def test_redacting_again_changes_nothing(text: str) -> None:
    once = Redactor().text(text)
    assert Redactor().text(once) == once
    assert once.count("\n") == text.count("\n")


#: Each is what some pattern begins with.
UNITS = (
    "a",
    "a.",
    "sk-",
    "eyJ-",
    "/a",
    "token_ids=[",
    "prompt: '",
    "'content': '",
    "api_key=",
    "a_",
    "://",
    "a@",
    "1.2.3.",
    "a:",
    "0:",
    "authorization: ",
    "--api-key x ",
    "curl ",
    "home/",
    "[a1:",
    "GPU-",
    " ",
    "\\",
    "'",
    "model=",
    "model /",
    '"name":',
    "a-",
    "name: ",
    "~a/",
    "ip-1-",
    "-----BEGIN PRIVATE KEY-----",
    "A_KEY",
    "{'content': ['",
    "model='a/",
    "model=a/b/",
    "models--a-",
    "served_model_name=['a','",
    "--served-model-name a-1 ",
    "--lora-modules a=b ",
    "https://huggingface.co/a/",
    "a/b is not a local folder",
    "LoRA adapter ",
    '{"model": "',
)


@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear_in_the_length(unit: str) -> None:
    """Four times the text takes about four times as long; with a quadratic pattern it would be sixteen times."""
    quarter, whole = (_seconds(unit * (size // len(unit))) for size in (60_000, 240_000))
    assert whole < 9 * quarter + 0.5


def _seconds(text: str) -> float:
    start = time.process_time()
    Redactor().text(text)
    return time.process_time() - start


def test_every_text_of_a_report_is_redacted() -> None:
    secret, home = SECRETS[0][0], "/home/mariselle/x"
    text = f"HF_TOKEN={secret} {home}"
    told = report(
        findings=finding(
            evidence=(Evidence(3, "EngineCore_DP0", text),),
            why={"en": text, "zh": text},
            title={"en": home, "zh": home},
        ).findings,
        facts={
            "env.HF_TOKEN": Fact(secret, "argv"),
            "model.name": Fact("/mnt/a/b", "argv"),
            "x": Fact((1, text), "log:1"),
        },
        command=(
            "env",
            f"HF_TOKEN={secret}",
            "vllm",
            "serve",
            "/mnt/a/b",
            "--api-key",
            "one",
            "two",
            "--host",
            "gpu-17",
        ),
        memory={"disk": {home: 3.0}, "gpus": [{"index": 0, "name": "NVIDIA L4"}]},
        trials=(
            Trial(
                "a",
                Change({"--api-key": "deep"}, {"HF_TOKEN": secret}, {}),
                f"vllm serve /mnt/a/b {home}",
                "confirmed",
                3.0,
            ),
        ),
    )
    done = redact(told)
    shown = repr(done)
    for private in (secret, "mariselle", "/mnt/a/b", "'one'", "'two'", "gpu-17", "deep"):
        assert private not in shown
    assert done.command == (
        "env",
        "HF_TOKEN=secret-1",
        "vllm",
        "serve",
        "/model-path-1",
        "--api-key",
        "secret-2",
        "secret-3",
        "--host",
        "host-1",
    )
    assert done.trials[0].command == "vllm serve /model-path-1 /home/user-1/x"
    assert (done.verdict, done.phase, done.timeline, done.findings[0].id) == (
        told.verdict,
        told.phase,
        told.timeline,
        told.findings[0].id,
    )
    assert redact(done) == done


def test_report_without_anything_private_stays_as_it_is() -> None:
    assert redact(REPORT) == REPORT
    assert redact(REPORT).findings[0].fixes[0].command == LONG


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_redacted_log_of_a_fixture_gives_the_same_diagnosis(case: object) -> None:
    log = case.log.decode("utf-8", "replace")  # type: ignore[attr-defined]
    redactor = Redactor()
    redactor.learn([log])
    plain, hidden = examine(log), examine(redactor.text(log))
    assert [(f.id, f.phase, f.confidence) for f in hidden.findings] == [
        (f.id, f.phase, f.confidence) for f in plain.findings
    ]
    assert (hidden.verdict, hidden.phase, hidden.step, hidden.timeline) == (
        plain.verdict,
        plain.phase,
        plain.step,
        plain.timeline,
    )
    assert redactor.names.replaced["secret"] == 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ChatRequest(messages=[{'content': \"it's me\", 'role': 'user'}], model='m')", "ChatRequest(messages=[{'content': \"[dropped]\", 'role': 'user'}], model='m')"),
        ('{"input": ["one", "two"], "model": "m"}', '{"input": ["[dropped]"], "model": "m"}'),
        ("output: 'x', output_token_ids: [1, 2], finish_reason: stop", "output: '[dropped]', output_token_ids: [dropped], finish_reason: stop"),
        ("prompt_token_ids=[[1, 2], [3]], lora=None", "prompt_token_ids=[dropped], lora=None"),
        ("Received request r: prompt: 'cut off in the mid", "Received request r: prompt: '[dropped]'"),
        ("prompt: 'a', params: x', params: SamplingParams(n=1)", "prompt: '[dropped]', params: SamplingParams(n=1)"),
        ("The decoder prompt (length 5000) is longer than 4096", "The decoder prompt (length 5000) is longer than 4096"),
        ("Avg prompt throughput: 12.0 tokens/s", "Avg prompt throughput: 12.0 tokens/s"),
        ("pass --api-key or set VLLM_API_KEY", "pass --api-key or set VLLM_API_KEY"),
        ("--api-key a1b2 c3d4 --port 8000", "--api-key secret-1 secret-2 --port 8000"),
        ("api_key=SecretStr('**********')", "api_key=SecretStr('**********')"),
        ("set-cookie: session=abcdef; Path=/", "set-cookie: secret-1"),
        ("s3://acme/llm/config.json and /models/a/b/model.safetensors", "s3://model-path-1/config.json and /model-path-2/model.safetensors"),
        ("vllm serve /m/secret/x.gguf; ls /m/secret/x.gguf-old", "vllm serve /model-path-1.gguf; ls /m/secret/x.gguf-old"),
        ("model='/model'", "model='/model'"),
        ("vllm serve acme/Llama-3.1-8B-Instruct", "vllm serve org-1/Llama-3.1-8B-Instruct"),
        ("models--acme--secret-7b and acme/secret-7b", "models--org-1--model-1 and org-1/model-1"),
        ("--served-model-name apex-1 zulu-2 --port 80 zulu-2", "--served-model-name model-1 model-2 --port 80 model-2"),
        ("https://huggingface.co/docs/transformers and https://huggingface.co/settings/tokens", "https://huggingface.co/docs/transformers and https://huggingface.co/settings/tokens"),
        ("kernel 6.18.33.2-microsoft-standard-WSL2", "kernel 6.18.33.2-microsoft-standard-WSL2"),
        ("https://git@github.com/a/b git@github.com:a/b", "https://git@github.com/a/b git@github.com:a/b"),
        ("MIG-GPU-0c5f1d2e-aaaa-bbbb-cccc-0123456789ab/1/0", "MIG-uuid-1/1/0"),
    ],
)  # fmt: skip
def test_line_is_redacted_to_the_letter(line: str, expected: str) -> None:
    assert Redactor().text(line) == expected


def test_options_of_a_command_tell_names_of_models() -> None:
    words = [
        "vllm",
        "serve",
        "acme/apex-llm",
        "--served-model-name",
        "payroll",
        "fraud",
        "--port",
        "1",
        "--lora-modules",
    ]
    words += ["tax=acme/tax-lora", "hr=/mnt/a/hr", "--tokenizer", "Qwen/Qwen3-8B", "--model", "secret-13b"]
    assert Redactor().words(words) == [
        *(
            "vllm",
            "serve",
            "org-1/model-1",
            "--served-model-name",
            "model-2",
            "model-3",
            "--port",
            "1",
            "--lora-modules",
        ),
        *("model-4=org-1/model-5", "hr=/model-path-1", "--tokenizer", "Qwen/Qwen3-8B", "--model", "model-6"),
    ]


def test_facts_and_changes_that_name_models_are_hidden() -> None:
    told = report(
        facts={"model.name": Fact("acme-corp/secret-7b", "argv"), "model.tokenizer": Fact("Qwen/Qwen3-8B", "argv")},
        command=("vllm", "serve", "acme-corp/secret-7b"),
        trials=(
            Trial(
                "a",
                Change({"--served-model-name": "payroll"}, {}, {}),
                "vllm serve acme-corp/secret-7b",
                "confirmed",
                3.0,
            ),
        ),
    )
    done = redact(told)
    assert done.facts["model.name"].value == "org-1/model-1"
    assert done.facts["model.tokenizer"].value == "Qwen/Qwen3-8B"
    assert done.command == ("vllm", "serve", "org-1/model-1")
    assert done.trials[0].command == "vllm serve org-1/model-1"
    assert "payroll" not in repr(done)


def test_half_a_character_is_survived() -> None:
    redactor = Redactor()
    redactor.learn(["HOSTNAME=gpu-node-7 \ud800"])
    assert redactor.text("on gpu-node-7 \ud800 model=/mnt/x/\udfff/y") == "on host-1 ? model=/model-path-1"
    assert redactor.words(["vllm", "serve", "/mnt/\ud800/x"])[2] == "/model-path-2"
