"""What a line may hold that is private, seen in one pass: most lines hold nothing, and no pattern is tried on them.

A sign is necessary, never sufficient: each pattern needs one of the words of its sign, in small letters.
"""

from __future__ import annotations

import functools

from ahocorasick_rs import AhoCorasick

(
    RECORD, IDS, BASE64, KEYED_TEXT, TOKEN, JWT, AUTHORIZATION, COOKIE, BEARER, URL, QUERY, CURL, SECRET_NAME, NAME_LINE,
    PEM, AT, GPU, SERIAL, BRACKET, JOURNAL, SYSLOG, KEYED_HOST, WEAK_HOST, PORT, UNAME, EC2, WINDOWS, HOME, TILDE, CACHE,
    USER, LOGIN, MODEL, WEIGHTS, SLASH, HUB, REFUSED,
) = (1 << bit for bit in range(37))  # fmt: skip

#: What names a model ends like this, and then something that parts it from its value: not model_runner, not /models/.
_MODEL_NAMES = (
    "model", "serve", "tokenizer", "path", "name", "_tag", "_id", "dir", "weights", "config", "checkpoint", "repo", "repoid",
    "repository", "download", "adapter", "--lora-modules",
)  # fmt: skip
_ENDS = (" ", "\t", "\xa0", "=", ":", ",", "\\", "'", '"', "`")
_MODEL_CALLS = (
    "from_pretrained(", "snapshot_download(", "hf_hub_download(", "list_repo_files(", "model_info(", "loramodulepath(",
)  # fmt: skip

_WORDS: dict[int, tuple[str, ...]] = {
    RECORD: ("prompt: ", "output: "),
    IDS: ("_ids",),
    BASE64: (";base64,",),
    KEYED_TEXT: (
        "content", "prompt", "text", "reasoning", "input", "query", "arguments", "suffix", "documents", "instructions",
        "refusal",
    ),
    TOKEN: (
        "hf_", "api_org_", "sk-", "akia", "asia", "aroa", "aida", "abia", "acca", "aiza", "ya29.", "gocspx-", "ghp_", "gho_",
        "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "xox", "xapp-", "nvapi-",
        "npm_", "pypi-", "dckr_", "_v1_", "r8_", "gsk_", "k_live_", "k_test_", "dapi", "age-secret", "hvs.",
    ),
    JWT: ("eyj",),
    AUTHORIZATION: ("authorization",),
    COOKIE: ("cookie",),
    BEARER: ("bearer",),
    URL: ("://",),
    QUERY: ("?", "&"),
    CURL: ("curl", " login", "sshpass"),
    SECRET_NAME: ("key", "token", "secret", "pass", "credential", "_pat", "webhook", "密码", "口令", "密钥", "令牌", "密碼"),
    NAME_LINE: ("name", "key"),
    PEM: ("-----",),
    AT: ("@",),
    GPU: ("gpu-", "mig-"),
    SERIAL: ("erial",),
    BRACKET: ("[",),
    JOURNAL: ("]: ",),
    SYSLOG: ("jan ", "feb ", "mar ", "apr ", "may ", "jun ", "jul ", "aug ", "sep ", "oct ", "nov ", "dec "),
    KEYED_HOST: ("host", "name", "addr", "endpoint", "head"),
    WEAK_HOST: ("host", "node", "peer", "remote", "machine"),
    PORT: (" port ",),
    UNAME: ("linux ",),
    EC2: ("ip-",),
    WINDOWS: ("desktop-", "laptop-", "win-"),
    HOME: ("home", "users"),
    TILDE: ("~",),
    CACHE: ("torchinductor_",),
    USER: ("user", "logname"),
    LOGIN: ("uid=", "gid=", "sudo:", "su - ", "for user"),
    MODEL: (*(name + end for name in _MODEL_NAMES for end in _ENDS), *_MODEL_CALLS),
    WEIGHTS: (
        ".safetensors", ".gguf", ".ggml", ".ckpt", ".pt", ".tensors", ".nemo", ".tiktoken", ".bin", ".json", ".model", ".jinja",
    ),
    SLASH: ("/", "\\"),
    HUB: ("huggingface.", "hf.co", "hf-mirror.", "modelscope.", "models--", "datasets--", "/resolve/", "hf://"),
    REFUSED: (" is not a local folder", " is not a valid model", " does not appear to have"),
}  # fmt: skip


@functools.cache
def _finder() -> tuple[AhoCorasick, tuple[int, ...]]:
    """All words, and for each the signs that it is."""
    bits: dict[str, int] = {}
    for sign, words in _WORDS.items():
        for one in words:
            bits[one] = bits.get(one, 0) | sign
    return AhoCorasick(list(bits)), tuple(bits.values())


def whole(text: str) -> str:
    """The text with a question mark for each half character, which no search takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def signs(text: str) -> int:
    """The signs in a line, as bits."""
    finder, bits = _finder()
    found = 0
    for index, _, _ in finder.find_matches_as_indexes(whole(text).lower(), overlapping=True):
        found |= bits[index]
    return found
