"""User names, home folders and the folders of private models in text."""

from __future__ import annotations

import re

from vdoctor.report import signs
from vdoctor.report.orgs import is_plain
from vdoctor.report.pseudonyms import Pseudonyms, is_pseudonym

_HOME = re.compile(r"([/\\](?:home|homes|Users|users)[/\\]{1,2})([A-Za-z0-9_][^/\\\s:'\"<>|,;()\[\]{}*]{0,63})")
_TILDE = re.compile(r"((?:^|[\s='\":,(\[])~)([a-z_][\w-]{0,31})(?=/)")
_CACHE = re.compile(r"(torchinductor_)([A-Za-z0-9_][\w.-]{0,31})")
_VARIABLE = re.compile(
    r"((?<![A-Za-z0-9_])(?:USER|LOGNAME|USERNAME|SUDO_USER)[\"']?\s{0,4}[=:]\s{0,4}\\?[\"']?)([A-Za-z_][\w.-]{0,63})"
)
_KEYWORD = re.compile(
    r"((?<![A-Za-z0-9])(?:user(?:_?name)?(?:=[\"']?|[\"']\s{0,4}:\s{0,4}[\"'])|username:\s{1,4}))([A-Za-z_][\w.-]{0,63})"
)
_LOGIN = re.compile(r"(\b(?:uid|gid|euid)=\d{1,10}\(|\bsudo:\s{1,8}|\bfor user [\"']?|\bsu - )([A-Za-z_][\w.-]{0,31})")
_SHELL = re.compile(r"(?<![\w./@%+-])([a-z_][\w.-]{0,31})@([A-Za-z][\w.-]{0,62})(?=:[~/]|[\s\]]|$)")

#: Accounts of images and machines: they name nobody.
_GENERIC = frozenset(
    [
        "root",
        "user",
        "users",
        "username",
        "admin",
        "administrator",
        "ubuntu",
        "debian",
        "centos",
        "fedora",
        "rocky",
        "ec2-user",
        "opc",
        "azureuser",
        "cloud-user",
        "core",
        "vagrant",
        "vllm",
        "ray",
        "jovyan",
        "runner",
        "app",
        "appuser",
        "nobody",
        "node",
        "docker",
        "container",
        "nvidia",
        "triton",
        "dynamo",
        "model",
        "models",
        "data",
        "shared",
        "public",
        "default",
        "guest",
        "test",
        "dev",
        "worker",
        "engine",
        "server",
        "service",
        "svc",
        "system",
        "torch",
        "linuxbrew",
        "conda",
        "mamba",
        "git",
        "none",
        "null",
        "true",
        "false",
        "str",
        "self",
    ]
)
#: Words that a start-up prints anyway: a user of that name is replaced in paths alone.
_ORDINARY = frozenset(
    [
        "python",
        "cuda",
        "nccl",
        "llama",
        "qwen",
        "mistral",
        "gemma",
        "deepseek",
        "shell",
        "error",
        "info",
        "warning",
        "debug",
        "load",
        "loading",
        "weight",
        "weights",
        "cache",
        "memory",
        "cores",
        "core",
        "master",
        "config",
        "rank",
        "local",
        "process",
        "launch",
        "graph",
        "graphs",
        "token",
        "tokens",
        "kernel",
        "kernels",
        "block",
        "blocks",
        "build",
        "work",
        "home",
        "main",
        "name",
        "file",
        "path",
        "time",
        "true",
        "version",
        "default",
        "request",
        "requests",
        "batch",
        "queue",
        "runtime",
        "compile",
        "compiler",
        "start",
        "process",
    ]
)

_STORE = r"(?:s3|gs|az|abfss?|oss|tos|cos|obs|hdfs|file)://"
_LOCAL = rf"(?:{_STORE}|\.{{0,2}}/|~[\w-]{{0,32}}/|[A-Za-z]:[\\/])[^\s'\"<>,;:()\[\]{{}}]+"
_MODEL = re.compile(
    r"((?<![A-Za-z0-9])(?:(?:hf_|draft_|speculative_|base_|reward_|gguf_|local_)?model(?:_tag|_path|_name_or_path|_dir|_weights)?"
    r"|--[a-z-]{0,20}model|serve|tokenizer|--tokenizer|served_model_name|pretrained_model_name_or_path|lora_path|local_path|lora_local_path"
    r"|download_dir|--download-dir|--lora-modules\s{1,4}[\w.-]{1,64}|adapter_path|checkpoint|MODEL(?:_NAME|_PATH|_DIR|_ID)?)"
    rf"\\?[\"']?(?:\s{{0,4}}[=:,]|\s{{1,12}}|=)\s{{0,4}}\[?\\?[\"']?)({_LOCAL})"
)
_PATH = re.compile(
    rf"(?<![\w.~/:-])(?:{_STORE}[^\s/\\'\",;()\[\]{{}}<>|]{{1,255}}|\.{{1,2}}|~|[A-Za-z]:)?(?:[/\\][^\s/\\'\",:;()\[\]{{}}<>|]{{1,255}}){{2,64}}"
)
_WEIGHTS = re.compile(
    r".*\.(?:safetensors|safetensors\.index\.json|bin\.index\.json|gguf|ggml|ckpt|pth?|tensors|nemo|tiktoken)"
    r"|.*\.bin|(?:config|tokenizer|tokenizer_config|generation_config|adapter_config|preprocessor_config|processor_config"
    r"|params|hf_quant_config|quantize_config|quant_config|special_tokens_map|vocab|added_tokens|chat_template|model_index)\.json"
    r"|tokenizer\.model|chat_template\.jinja"
)
#: Folders of systems, programs and caches; below the hub's cache stand names of repositories.
_PUBLIC = re.compile(
    r"/(?:usr|proc|sys|dev|etc|lib|lib64|bin|sbin|run|boot)(?:/|$)|.*(?:/site-packages/|/dist-packages/|/lib/python3|/models--|/datasets--"
    r"|/hub$|/\.cache/(?:vllm|torch|huggingface|flashinfer|triton|modelscope)|/torchinductor_|/triton/|/vllm-workspace(?:/|$))"
)
_KEPT_SUFFIX = re.compile(r"\.(?:gguf|ggml|safetensors|bin|pth?|json|nemo)$")


def hide_users(text: str, names: Pseudonyms, seen: int) -> str:
    """User names: in home folders, caches, variables, prompts of shells; `seen` are the signs of the text."""

    def user(match: re.Match[str]) -> str:
        return match[1] + _user(match[2], names)

    if seen & signs.HOME:
        text = _HOME.sub(user, text)
    if seen & signs.TILDE:
        text = _TILDE.sub(user, text)
    if seen & signs.CACHE:
        text = _CACHE.sub(user, text)
    if seen & signs.USER:
        text = _VARIABLE.sub(user, text)
        text = _KEYWORD.sub(user, text)
    if seen & signs.LOGIN:
        text = _LOGIN.sub(user, text)
    return text


def hide_logins(text: str, names: Pseudonyms, seen: int) -> str:
    """`alice@gpu-node-17:~$`: user and host of a shell prompt or of ssh."""
    if not seen & signs.AT:
        return text

    def login(match: re.Match[str]) -> str:
        host = match[2]
        if host in ("localhost", "host", "sha256", "property") or match[1] in ("git",):
            return match[0]
        return f"{_user(match[1], names)}@{names.name('host', host, everywhere=is_telling(host))}"

    return _SHELL.sub(login, text)


def hide_models(text: str, names: Pseudonyms, seen: int) -> str:
    """Local folders of models. Names of public repositories (`org/name`), also below the hub's cache, stay."""
    if not seen & signs.SLASH:
        return text
    if seen & signs.MODEL:
        text = _MODEL.sub(lambda m: m[1] + model_path(m[2], names), text)
    if seen & signs.WEIGHTS:
        text = _PATH.sub(lambda m: _weights(m[0], names), text)
    return text


def model_path(path: str, names: Pseudonyms) -> str:
    """What stands for the path of a local model; public and one-part paths (`/model`) stay."""
    bare = path.rstrip("/\\.")
    hide_users(bare, names, signs.signs(bare))
    head = re.match(rf"{_STORE}|\.{{0,2}}/|~[\w-]*/|[A-Za-z]:[\\/]", bare)
    rest = bare[head.end() :] if head else bare
    if head is None or not rest or is_pseudonym(rest.split("/")[0]) or _PUBLIC.match(bare):
        return path
    if head[0] == "/" and "/" not in rest and (is_plain(rest) or is_ordinary(rest)):
        return path
    suffix = _KEPT_SUFFIX.search(bare)
    start = "~/" if head[0].startswith("~") else head[0].replace("\\", "/")
    return (
        names.name("model-path", bare, everywhere=True, shape=f"{start}{{}}{suffix[0] if suffix else ''}")
        + path[len(bare) :]
    )


def _weights(path: str, names: Pseudonyms) -> str:
    folder, _, file = path.replace("\\", "/").rpartition("/")
    if not _WEIGHTS.fullmatch(file):
        return path
    # The folder may lie below one that is known as a model.
    parent = folder
    while parent:
        if parent in names.learned:
            return names.learned[parent][1] + path[len(parent) :]
        parent = parent.rpartition("/")[0]
    return model_path(path[: len(folder)], names) + path[len(folder) :]


def _user(name: str, names: Pseudonyms) -> str:
    if name.lower() in _GENERIC or name.isdigit():
        return name
    return names.name("user", name, everywhere=len(name) >= 4 and name.lower() not in _ORDINARY)


def is_ordinary(name: str) -> bool:
    """A word that a start-up prints anyway, or the name of an account that nobody owns."""
    return name.lower() in _ORDINARY or name.lower() in _GENERIC


def is_telling(name: str) -> bool:
    """Whether a host's name is one wherever it stands: `gpu-17`, not `gpu`."""
    return len(name) >= 4 and (any(c.isdigit() for c in name) or "-" in name or "." in name)
