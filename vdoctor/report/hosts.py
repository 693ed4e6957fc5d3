"""Hosts, addresses and devices in text: names, IPv4, IPv6, MAC, e-mail, UUIDs and serial numbers of GPUs."""

from __future__ import annotations

import ipaddress
import re

from vdoctor.report import signs
from vdoctor.report.places import is_telling
from vdoctor.report.pseudonyms import Pseudonyms, is_pseudonym

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62})"
_URL_HOST = re.compile(
    rf"((?:[a-z][a-z0-9+.-]{{0,20}})://(?:[^\s/@'\"<>]{{0,512}}@)?)({_LABEL}(?:\.{_LABEL}){{0,10}})(?=[:/\s'\"?#,;)\]}}>]|$)"
)
_DOTTED = re.compile(rf"(?<![\w.@/\\-])({_LABEL}(?:\.{_LABEL}){{1,10}})(?![\w-]|\.\w|\(|\.py)")
_BRACKETED = re.compile(r"(\[)([A-Za-z][\w.-]{0,80})(?=\]:\d{2,5}(?!\d))")
_KEYED = re.compile(
    r"((?:(?<![A-Za-z0-9])(?i:host_?name|node_?name|server_?name|pod_?name|kube_node_name|master[_-]addr(?:ess)?|node[_-]ip[_-]address"
    r"|data[_-]parallel[_-]address|rdzv[_-]endpoint|dist[_-]init[_-]addr|ray[_-]head|head[_-]node)\\?[\"']?\s{0,4}[=:]\s{0,4}\\?[\"']?"
    r"|--(?:host|master-addr|node-ip-address|data-parallel-address|rdzv[_-]endpoint)(?:[=\s][\"']?|[\"']\s?,\s?[\"'])))"
    r"([A-Za-z][\w.-]{1,100})"
)
_WEAK = re.compile(
    r"((?<![A-Za-z0-9_])(?:host|node|machine_name|peer|remote)\\?[\"']?\s{0,4}[=:]\s{0,4}\\?[\"']?)([A-Za-z][\w.-]{2,100})"
)
_NCCL_SIGN = re.compile(r":\d{1,8}:\d{1,8} \[-?\d{1,3}\]")
#: Not that of a source line, [core.py:708].
_PORT = re.compile(r":(?<!\.py:)\d{3,5}(?!\d)")
_NCCL = re.compile(r"(?<![\w.:/-])(?=[\w.-]{0,63}[A-Za-z])([A-Za-z0-9][\w.-]{0,63})(?=:\d{1,8}:\d{1,8} \[-?\d{1,3}\])")
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_SYSLOG = re.compile(
    rf"((?:^|(?<=\s)){_MONTH} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})? )([A-Za-z0-9][\w.-]{{0,80}})(?= [\w.@/\-]{{1,64}}(?:\[\d{{1,9}}\])?: )"
)
_JOURNAL = re.compile(
    r"((?:^|(?<=\s))\d{4}-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)? )([A-Za-z0-9][\w.-]{0,80})(?= [\w.@/\-]{1,64}\[\d{1,9}\]: )"
)
_CRASH = re.compile(r"(\[)(?![A-Za-z]\w{0,63}\.py:)([A-Za-z][\w.-]{1,63})(?=:\d{3,8}(?::\d{1,8}){0,3}\])")
_POD = re.compile(r"(\[pod/)([\w.-]{1,253})(?=/)")
_PEER = re.compile(
    r"(\b(?:host|to|from|on|node|peer|server|at|with|connect|address)\s{1,4}[\"']?)([A-Za-z][A-Za-z-]{0,40}\d[\w.-]{0,60})(?=:\d{3,5}(?!\d)|[\"']? port \d)"
)
_UNAME = re.compile(r"(\bLinux )([\w.-]{1,64})(?= \d{1,3}\.\d{1,3}\.\d)")
_EC2 = re.compile(r"(?<![\w.-])ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?:\.[\w-]{1,63}){0,6}")
_WINDOWS = re.compile(r"\b(?:DESKTOP|LAPTOP|WIN)-[A-Z0-9]{7,11}\b")

_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")
_IPV4_SIGN = re.compile(r"\.\d{1,3}\.\d{1,3}\.\d")
_IPV4 = re.compile(r"(?<![\w.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?![\w]|\.\d|-[A-Za-z])")
# A version with four parts: nvidia-cudnn-cu12==9.1.0.70, cuDNN version 8.9.2.26, libcudnn.so.8.9.7.29
_VERSION_BEFORE = re.compile(
    r"(?:[=<>~!]=\s?|\b(?:version|ver|release|driver|cudnn|cublas|nccl|tensorrt|firmware|vbios|bios)[\w\"']{0,12}\s{0,3}[:=]?\s{0,8}[\"']?v?|cu\d\d\s{1,40}"
    r"|nvidia-[\w-]{1,40}\s{1,40}|\d[-+])$",
    re.I,
)
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,40}(?![\w:])")
_MAC_SIGN = re.compile(r"[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}")
_MAC = re.compile(
    r"(?<![\w:-])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:-])|(?<![\w:-])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}(?![\w:-])"
)
_UUID = re.compile(r"(?<![\w-])((?:MIG-GPU|GPU|MIG)-)([0-9a-f]{4,8}(?:-[0-9a-f]{4,12}){0,4})(?![\w])")
_SERIAL = re.compile(
    r"(\b(?:Serial Number|Board Serial|Chassis Serial|serial)[\"']?\s{0,40}[:=]\s{0,4}[\"']?)([A-Z0-9]{8,20}(?!\w))"
)

#: What everybody may know. Subdomains count, too.
_PUBLIC = frozenset(
    [
        "localhost",
        "huggingface.co",
        "hf.co",
        "hf-mirror.com",
        "modelscope.cn",
        "modelscope.ai",
        "github.com",
        "githubusercontent.com",
        "github.io",
        "python.org",
        "pytorch.org",
        "vllm.ai",
        "nvidia.com",
        "nvcr.io",
        "docker.io",
        "docker.com",
        "ghcr.io",
        "quay.io",
        "gcr.io",
        "pkg.dev",
        "readthedocs.io",
        "ray.io",
        "kernel.org",
        "ubuntu.com",
        "debian.org",
        "conda.io",
        "anaconda.com",
        "anaconda.org",
        "wandb.ai",
        "openai.com",
        "amd.com",
        "rocm.docs.amd.com",
        "intel.com",
        "example.com",
        "example.org",
        "errors.pydantic.dev",
        "pydantic.dev",
        "wikipedia.org",
        "mozilla.org",
        "stackoverflow.com",
        "googleapis.com",
    ]
)
_PRIVATE_ENDS = frozenset(
    ["internal", "local", "lan", "corp", "intra", "intranet", "localdomain", "private", "home", "consul", "svc"]
)
_PUBLIC_ENDS = frozenset(
    [
        "com",
        "net",
        "org",
        "edu",
        "gov",
        "mil",
        "io",
        "ai",
        "cn",
        "dev",
        "cloud",
        "co",
        "de",
        "fr",
        "uk",
        "jp",
        "kr",
        "ch",
        "nl",
        "se",
        "eu",
        "ru",
    ]
)
_END = re.compile(rf"\.(?:{'|'.join(sorted(_PRIVATE_ENDS | _PUBLIC_ENDS))})(?![\w-])")
#: First parts of dotted names that are modules of Python.
_MODULES = frozenset(
    [
        "torch",
        "vllm",
        "transformers",
        "threading",
        "numpy",
        "ray",
        "triton",
        "self",
        "os",
        "sys",
        "cls",
        "model",
        "nn",
        "config",
        "kv_init",
        "weight_load",
        "graph_capture",
        "launch",
        "runtime",
    ]
)
_KEPT = frozenset(
    [
        "localhost",
        "none",
        "null",
        "true",
        "false",
        "auto",
        "str",
        "string",
        "any",
        "unknown",
        "host",
        "node",
        "name",
        "address",
        "file",
        "source",
    ]
)
_FILE = re.compile(
    r".*\.(?:py|pyx|cpp|cc|cxx|c|h|hpp|cu|cuh|rs|go|js|so|json|toml|yaml|yml|txt|log|sh|md|html|bin|pt|whl)$"
)
_KEPT_ADDRESSES = ("127.", "0.0.0.0", "255.", "169.254.169.254")


def hide_hosts(text: str, names: Pseudonyms, seen: int) -> str:
    """Names of hosts where the place says that one stands there; `seen` are the line's signs."""

    def keyed(match: re.Match[str]) -> str:
        return match[1] + _host(match[2], names)

    def telling(match: re.Match[str]) -> str:
        return match[1] + (_host(match[2], names) if is_telling(match[2]) else match[2])

    if seen & signs.URL:
        text = _URL_HOST.sub(keyed, text)
    if seen & signs.SYSLOG:
        text = _SYSLOG.sub(keyed, text)
    if seen & signs.JOURNAL:
        text = _JOURNAL.sub(keyed, text)
    if seen & signs.BRACKET:
        text = _BRACKETED.sub(keyed, text)
        text = _CRASH.sub(lambda m: m[0] if m[2].startswith("rank") else telling(m), text)
        if _NCCL_SIGN.search(text):
            text = _NCCL.sub(lambda m: _host(m[1], names), text)
        text = _POD.sub(keyed, text)
    if seen & signs.KEYED_HOST:
        text = _KEYED.sub(keyed, text)
    if seen & signs.WEAK_HOST:
        text = _WEAK.sub(telling, text)
    if seen & signs.PORT or _PORT.search(text):
        text = _PEER.sub(keyed, text)
    if seen & signs.UNAME:
        text = _UNAME.sub(keyed, text)
    if seen & signs.EC2:
        text = _EC2.sub(lambda m: _host(m[0], names), text)
    if seen & signs.WINDOWS:
        text = _WINDOWS.sub(lambda m: _host(m[0], names), text)
    return _DOTTED.sub(lambda m: _dotted(m[1], names), text) if "." in text and _END.search(text.lower()) else text


def hide_addresses(text: str, names: Pseudonyms, seen: int) -> str:
    """E-mail, IP and MAC addresses, UUIDs and serial numbers. Local addresses, ports and versions stay."""
    if seen & signs.AT:
        text = _EMAIL.sub(lambda m: _email(m[0], names), text)
    colons = text.count(":")
    if (colons >= 5 or text.count("-") >= 5) and _MAC_SIGN.search(text):
        text = _MAC.sub(
            lambda m: m[0] if set(m[0]) <= set("0fF:-") else names.name("mac", m[0].lower().replace("-", ":")), text
        )
    if seen & signs.GPU:
        text = _UUID.sub(lambda m: m[1].replace("MIG-GPU", "MIG") + names.name("gpu-uuid", m[2]), text)
    if colons >= 7 or "::" in text:
        text = _IPV6.sub(lambda m: _ipv6(m[0], names), text)
    if seen & signs.SERIAL:
        text = _SERIAL.sub(lambda m: m[1] + names.name("serial", m[2]), text)
    return _IPV4.sub(lambda m: _ipv4(m, names), text) if _IPV4_SIGN.search(text) else text


def _email(address: str, names: Pseudonyms) -> str:
    """`git@github.com:` is none, and a login that was replaced already stands before its host."""
    login = address.partition("@")[0]
    return address if login == "git" or is_pseudonym(login) else names.name("email", address)


def _host(name: str, names: Pseudonyms) -> str:
    bare = name.rstrip(".-")
    low = bare.lower()
    if low in _KEPT or is_pseudonym(low) or _FILE.match(low) or _is_public(low) or not any(c.isalpha() for c in low):
        return name
    # gpu-17 and gpu-17.example.internal are one host.
    short = bare.split(".")[0]
    return names.name("host", short if is_telling(short) else bare, everywhere=is_telling(bare)) + name[len(bare) :]


def _is_public(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[at:]) in _PUBLIC for at in range(len(parts)))


def _dotted(name: str, names: Pseudonyms) -> str:
    """A name with dots and no other sign: a host only when its end says so and it looks like no module of Python."""
    parts = name.lower().split(".")
    telling = any(c.isdigit() or c == "-" for c in "".join(parts[:-1]))
    if parts[0] in _MODULES or "_" in name or not parts[-1].isalpha():
        return name
    private = parts[-1] in _PRIVATE_ENDS and (telling or len(parts) >= 3)
    public = parts[-1] in _PUBLIC_ENDS and (len(parts) >= 3 or parts[-1] in ("com", "org", "edu", "gov") or telling)
    return _host(name, names) if private or public else name


def _ipv4(match: re.Match[str], names: Pseudonyms) -> str:
    address = match[0]
    if any(int(part) > 255 or (len(part) > 1 and part[0] == "0") for part in match.groups()):
        return address
    if address.startswith(_KEPT_ADDRESSES):
        return address
    before = match.string[max(0, match.start() - 48) : match.start()]
    return address if _VERSION_BEFORE.search(before) else names.name("ip", address)


def _ipv6(text: str, names: Pseudonyms) -> str:
    bare = text.rstrip(":") if not text.endswith("::") else text
    if bare.count(":") < 2 or not any(c.isdigit() for c in bare) or bare in ("::1", "::0"):
        return text
    try:
        ipaddress.IPv6Address(bare)
    except ValueError:
        return text
    return names.name("ip", bare.lower()) + text[len(bare) :]
