"""The words of `--help`: headings of options, examples, exit statuses."""

from __future__ import annotations

#: Purpose -> commands, in order.
GROUPS: dict[str, tuple[str, ...]] = {
    "When a server fails": ("analyze", "watch", "confirm", "compare"),
    "Before it starts": ("check", "estimate"),
    "For others": ("bundle", "fleet", "explain"),
    "Commands": ("list", "new", "lint", "test"),
    "Rules and more": ("rules", "demo", "completion"),
}
#: One line for commands whose first sentence is longer.
SHORT = {
    "analyze": "Diagnose saved logs, pasted tickets and recorded sessions.",
    "watch": "Run a server and say what goes wrong while it starts; or attach to one.",
    "confirm": "Relaunch a recorded failing command with the change that works.",
    "compare": "Compare two starts: what got slower or bigger, and what changed.",
    "check": "Look at this machine and a launch before anything is started.",
    "estimate": "The GPU memory budget: what fits, and what makes it fit.",
    "completion": "Print the completion script of bash, zsh or fish.",
    "bundle": "Pack a recorded session for somebody else, redacted.",
}
#: Heading -> options, in order. An option that is not here stands under "Options".
HEADINGS: dict[str, tuple[str, ...]] = {
    "What to watch": ("--follow", "--pid", "--after-ready", "--interval", "--no-instrument"),
    "Recording and telling": ("--session", "--no-session", "--events", "--termination-log"),
    "Stalls": ("--stall-after", "--on-stall"),
    "Trials of changes": (
        "--confirm", "--max-trials", "--trial-timeout", "--budget", "--dry-run", "--measure", "--fix", "--manifest",
    ),
    "Input": ("--gpu-log", "--storage"),
    "Machine and release": ("--gpu-memory", "--gpus", "--vllm-version", "--platform", "--preset", "--online"),
    "Options of vllm serve": (
        "--max-model-len", "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size",
        "--kv-cache-dtype", "--block-size", "--gpu-memory-utilization", "--kv-cache-memory-bytes", "--max-num-seqs",
        "--max-num-batched-tokens", "--num-gpu-blocks-override", "--dtype", "--quantization", "--mamba-ssm-cache-dtype",
        "--enforce-eager", "--enable-prefix-caching", "--enable-expert-parallel", "--disable-hybrid-kv-cache-manager",
        "--speculative-config", "--enable-lora", "--max-loras", "--max-lora-rank",
    ),
    "Playing": ("--speed", "--play", "--cast"),
    "Cluster": ("--scheduler", "--workers", "--part"),
    "Draft": ("--from-log", "--cause", "--dir"),
    "Result": ("--format", "--form", "--jsonl", "--output", "--lang", "--no-color", "--quiet", "--verbose"),
    "Privacy": ("--redact", "--check-redaction"),
    "Rule base": ("--rules",),
}  # fmt: skip
_ANALYZE = (
    ("0", "nothing wrong"),
    ("1", "something found"),
    ("2", "wrong usage, or a log that cannot be read"),
    ("3", "a fault in vdoctor itself"),
)
STATUS: dict[str, tuple[tuple[str, str], ...]] = {
    "analyze": _ANALYZE,
    "watch": (
        ("N", "the command's own status; 128+N when signal N ended it"),
        ("1", "--on-stall stop ended it"),
        ("125", "vdoctor itself failed, or wrong usage"),
        ("126, 127", "COMMAND cannot be executed, was not found"),
        ("0, 1", "of a server that somebody else started: nothing wrong, something found"),
    ),
    "confirm": (
        ("0", "a change is proven; or a plan or an edit was printed"),
        ("1", "no change is proven"),
        ("2", "wrong usage"),
        ("130", "interrupted"),
    ),
    "compare": (
        ("0", "nothing got worse"),
        ("1", "a phase got slower, memory bigger, the KV cache smaller, or only the first start got ready"),
        ("2", "input that cannot be read, or is not of vLLM"),
    ),
    "check": (("0", "nothing found"), ("1", "something found"), ("2", "wrong usage"), _ANALYZE[3]),
    "estimate": (
        ("0", "it fits, or no card is known"),
        ("1", "it does not fit, or may not"),
        ("2", "input that cannot be read, or cannot be"),
        _ANALYZE[3],
    ),
    "demo": (
        ("0", "the fix is proven; with --play nothing is wrong with the start"),
        ("1", "it is not; with --play something was found"),
        ("2", "wrong usage or input"),
    ),
    "": (
        ("0", "nothing wrong"),
        ("1", "something found"),
        ("2", "wrong usage or input"),
        ("3", "a fault in vdoctor itself"),
        ("", "watch ends with the status of the command that it runs: vdoctor watch --help"),
    ),
}
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("vdoctor analyze vllm.log", "what stopped this start"),
        ("vdoctor watch -- vllm serve MODEL", "start a server under observation"),
        ("vdoctor check -- vllm serve MODEL", "what would stop it"),
    ),
    "analyze": (
        ("vdoctor analyze vllm.log", "a saved log"),
        ("kubectl logs POD --previous | vdoctor analyze", "a pipe"),
        ("vdoctor analyze --format markdown vllm.log", "for a ticket; private things hidden"),
        ("vdoctor analyze --format html --output report.html SESSION", "one page with all that was measured"),
        ("vdoctor analyze --jsonl logs/", "a folder, one JSON report a line"),
    ),
    "watch": (
        ("vdoctor watch -- vllm serve MODEL", "a server of your own"),
        ("vdoctor watch --confirm auto -- vllm serve MODEL", "and relaunch it until a change is proven"),
        ("vdoctor watch --on-stall stop -- vllm serve MODEL", "end it when it hangs"),
        ("vdoctor watch --follow /var/log/vllm.log", "a log that grows"),
        ("kubectl logs -f POD | vdoctor watch -", "a pipe"),
    ),
    "confirm": (
        ("vdoctor confirm SESSION", "ask before something is given up"),
        ("vdoctor confirm --dry-run SESSION", "what would be tried"),
        ("vdoctor confirm --manifest compose.yaml SESSION", "the fix as a diff of that file"),
    ),
    "compare": (("vdoctor compare yesterday.log today.log", "two logs"),),
    "check": (
        ("vdoctor check", "this machine"),
        ("vdoctor check -- vllm serve MODEL --tensor-parallel-size 3", "that launch on it"),
    ),
    "estimate": (
        ("vdoctor estimate Qwen/Qwen3-8B --gpu-memory 24", "one card of 24 GiB"),
        ("vdoctor estimate -- vllm serve MODEL --max-model-len 32768", "a start command on this machine"),
        ("vdoctor estimate MODEL --preset 2x24gb", "a start command with reasons"),
    ),
    "bundle": (
        ("vdoctor bundle SESSION", "writes SESSION.tar.gz into this folder"),
        ("vdoctor bundle --check-redaction SESSION", "what would be hidden"),
    ),
    "explain": (("vdoctor explain oom.kv-too-small", "in both languages"),),
    "fleet": (
        ("vdoctor fleet logs/ --output results", "a local cluster"),
        ("vdoctor fleet 's3://bucket/*.log.gz' --output results --form parquet", "object storage"),
    ),
    "rules new": (("vdoctor rules new oom.my-cause --from-log failed.log:1187", "a draft with that line"),),
    "rules lint": (("vdoctor rules lint rules/oom/my-cause.toml", "one rule"),),
    "completion": (
        ("source <(vdoctor completion bash)", "in ~/.bashrc"),
        ("source <(vdoctor completion zsh)", "in ~/.zshrc, behind compinit"),
        ("vdoctor completion fish | source", "in ~/.config/fish/config.fish"),
    ),
    "demo": (
        ("vdoctor demo --speed 4", "four times as fast"),
        ("vdoctor demo --play SESSION --speed 10", "a recorded start once more"),
    ),
}
