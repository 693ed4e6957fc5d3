"""Secrets in text: tokens that are known by their form, and values that are known by the name before them.

All patterns are linear in the length of the line: what may repeat without end stands last or cannot fail.
"""

from __future__ import annotations

import re

from vdoctor.report import signs
from vdoctor.report.pseudonyms import Pseudonyms, is_pseudonym

# Forms that their issuers document: Hugging Face, OpenAI and others that write sk-, AWS, Google, GitHub, GitLab, Slack,
# NVIDIA, npm, PyPI, Docker, DigitalOcean, Replicate, Groq, Together, Stripe, Databricks, age, Telegram-like bots left out.
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{16,}"
    r"|sk-(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{16,}"
    r"|(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|gl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_-]{16,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{16,}|nvapi-[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-AgE[A-Za-z0-9_-]{16,}|dckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}|do[opr]_v1_[a-f0-9]{32,}"
    r"|r8_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{30,}|tgp_v1_[A-Za-z0-9_-]{20,}|[srp]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|dapi[0-9a-f]{32}|AGE-SECRET-KEY-[A-Z0-9]{16,}|hvs\.[A-Za-z0-9_-]{16,}"
    r")"
)
_NAME_SIGN = re.compile(
    r"(?:key|token|secret|passw(?:or)?d|passphrase|credentials?|_pat|_pass|webhook[_-]?url)(?:[_-]?id)?\\?[\"']?\s{0,8}[=:,]"
)
_JWT = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?")
_AUTHORIZATION = re.compile(
    r"(authorization\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?(?:(?:bearer|basic|token|digest|negotiate)\s{1,4})?)([^\s\"',;\\]{4,})",
    re.I,
)
_COOKIE = re.compile(r"(\b(?:set-)?cookie\\?[\"']?\s{0,4}:\s{0,4}\\?[\"']?)([^\"'\r\n\\]{4,})", re.I)
_BEARER = re.compile(r"(\bbearer\s{1,4})([A-Za-z0-9._~+/=-]{8,})", re.I)
_WORD = re.compile(r"[a-z_-]+|[A-Z][a-z_-]+|[A-Z_-]+")
_URL_LOGIN = re.compile(r"(://)([^\s/'\"<>?#]{1,512})@")
_URL_QUERY = re.compile(
    r"([?&](?:sig|signature|token|access_token|auth|key|api[_-]?key|password|secret|code|policy|key-pair-id"
    r"|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|awsaccesskeyid)=)([^&\s\"'<>]+)",
    re.I,
)
_PLAIN_TOKEN = re.compile(
    r"((?<![A-Za-z0-9_-])token\\?[\"']?\s{0,4}[=:]\s{0,4}\\?[\"']?)((?=[A-Za-z_.-]{0,40}\d)[A-Za-z0-9_.-]{20,})", re.I
)
# PWD is a folder; EOS_TOKEN and max_tokens are no secrets: a lower-case token needs a word that says whose it is.
_NAME = (
    r"(?:(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,40}[_-]){0,4}(?i:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?(?:access[_-]?)?key"
    r"|secret|private[_-]?key(?:[_-]id)?|account[_-]?key|shared[_-]?access[_-]?key|signing[_-]?key|encryption[_-]?key"
    r"|client[_-]?secret|passw(?:or)?d|passphrase|credentials?|webhook[_-]?url"
    r"|(?:hf|hub|auth|access|session|refresh|bearer|security|github|gh|gitlab|api|ngc|wandb|slack|user|login|admin|registry"
    r"|bot|deploy|ci|job|npm|pypi|vault|modelscope|huggingface)[_-]?token)"
    r"|(?<![A-Za-z0-9_])(?:[A-Z][A-Z0-9_]{0,60})?(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|APIKEY|_KEY|CREDENTIALS?|_PAT|_PASS))"
    r"(?![A-Za-z0-9_])"
)
_NO_SECRET_NAME = re.compile(
    r"(?:EOS|BOS|PAD|UNK|SEP|CLS|MASK|IMAGE|AUDIO|VIDEO|STOP|MAX|NUM|CACHE|SORT)_(?:TOKEN|KEY)$", re.I
)
_VALUE = r"(?:b?\\?\"((?:[^\"\\\r\n]|\\[^\"'\r\n])*)|b?\\?'((?:[^'\\\r\n]|\\[^\"'\r\n])*)|\[([^\]\r\n]*)|([^\s\"'\\,;)}\]&|<>\[]+))"
_NAMED = re.compile(
    rf"({_NAME}\\?[\"']?(?:\s{{0,8}}(?:=>|[=:])\s{{0,8}}|\s{{0,4}},\s{{0,4}}\\?[\"']?value\\?[\"']?\s{{0,4}}[=:]\s{{0,4}}))({_VALUE})"
)
# Options take their value behind a blank, too, and in a printed list behind "', '"; --api-key takes several.
_OPTION = re.compile(rf"(--?{_NAME}(?:=|\s{{1,8}}|[\"']\s?,\s{{0,4}}))((?!-){_VALUE})")
_MORE_KEYS = re.compile(
    r"(--api-key(?:=|\s{1,4})[^\s-]\S{0,200}\s{1,4})((?:[^\s'\"\-\\|&;<>][^\s'\"]{0,200}\s{1,4}){0,8})(?=--)"
)
_CURL_LOGIN = re.compile(r"(\s(?:-u|--user)\s{1,4}[\"']?)([^\s\"':]{1,64}:[^\s\"']{1,128})")
# docker, podman, helm ... login -u NAME -p PASSWORD; the long option is known by its name.
_LOGIN = re.compile(
    r"(\b(?:(?:docker|podman|nerdctl|buildah|skopeo|oras|crane|helm|az|oc|ollama)\b[^|;&\r\n]{0,80}? login\b[^|;&\r\n]{0,200}?\s-p"
    r"|sshpass\s{1,4}-p)(?:\s{1,4}|=)?[\"']?)([^\s\"'-][^\s\"']{0,200})"
)
_CHINESE = re.compile(r"((?:密码|密碼|口令|密钥|令牌)\s{0,4}(?:[：:=]|是|为)\s{0,4}[\"'“]?)([!-~]{4,200})")
_BLANKS = re.compile(r"\S+")
_QUOTED = re.compile(r"(b?[\"'])([^\"']{1,})")
_NAME_ONLY = re.compile(_NAME)
_NAME_LINE = re.compile(rf"(?:^|[\s\-\"'])(?:name|key)[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?({_NAME})[\"']?,?\s{{0,8}}$")
_VALUE_LINE = re.compile(r"((?:^|[\s\-\"'])value[\"']?\s{0,4}[:=]\s{0,4}[\"']?)([^\s\"',][^\r\n\"']*)")
_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"[^\s\"'\\]+(?:\\n[^\s\"'\\]+)*")

#: What says that no secret is there, or that it was masked before.
_NO_SECRET = re.compile(
    r"(?:none|null|true|false|\*+|x{3,}|<[^>]*>?|\$.*|\.\.\.|…|redacted|str|bytes|any|optional\[.*|list\[.*|secretstr.*|\[dropped\]"
    # Prose: "pass --api-key or set VLLM_API_KEY"
    r"|to|or|and|is|in|with|for|the|a|an|are|was|argument|option|flag|must|not|as|if|when|can|needs?|requires?)",
    re.I | re.S,
)
_PUBLIC_LOGINS = frozenset({"git", "oauth2accesstoken", "anonymous"})


class Secrets:
    """Replaces secrets. Keeps what the lines before say about the next one: PEM blocks, `name:` above `value:`."""

    def __init__(self, names: Pseudonyms) -> None:
        self._names = names
        self._in_pem = False
        self._value_follows = False

    def line(self, text: str, seen: int) -> str:
        """One line with its secrets replaced; lines must come in their order. `seen` are the line's signs."""
        if seen & (signs.PEM | signs.NAME_LINE) or self._in_pem or self._value_follows:
            text = self._across_lines(text, seen)
        if seen & signs.TOKEN:
            text = _TOKENS.sub(lambda m: self._name(m[0]), text)
        if seen & signs.JWT:
            text = _JWT.sub(lambda m: self._name(m[0]), text)
        if seen & signs.AUTHORIZATION:
            text = _AUTHORIZATION.sub(lambda m: m[1] + self._value(m[2]), text)
        if seen & signs.COOKIE:
            text = _COOKIE.sub(lambda m: m[1] + self._value(m[2]), text)
        if seen & signs.BEARER:
            text = _BEARER.sub(lambda m: m[1] + (m[2] if _WORD.fullmatch(m[2]) else self._name(m[2])), text)
        if seen & signs.URL:
            text = _URL_LOGIN.sub(lambda m: m[0] if m[2] in _PUBLIC_LOGINS else f"{m[1]}{self._name(m[2])}@", text)
        if seen & signs.QUERY and "=" in text:
            text = _URL_QUERY.sub(lambda m: m[1] + self._value(m[2]), text)
        if seen & signs.CURL:
            text = _CURL_LOGIN.sub(lambda m: m[1] + self._name(m[2]), text)
            text = _LOGIN.sub(lambda m: m[1] + self._value(m[2]), text)
        if seen & signs.SECRET_NAME:
            text = _CHINESE.sub(lambda m: m[1] + self._value(m[2]), text)
            low = text.lower()
            if _NAME_SIGN.search(low):
                text = _NAMED.sub(self._named, text)
                text = _PLAIN_TOKEN.sub(lambda m: m[1] + self._name(m[2]), text)
            if "--" in text or " -" in text or text.startswith("-"):
                text = _OPTION.sub(self._named, text)
            if "--api-key" in low:
                text = _MORE_KEYS.sub(lambda m: m[1] + _BLANKS.sub(lambda word: self._value(word[0]), m[2]), text)
        return text

    def _name(self, value: str) -> str:
        return self._names.name("secret", value, everywhere=len(value) >= 8)

    def _value(self, value: str) -> str:
        return value if _NO_SECRET.fullmatch(value) else self._name(value)

    def _named(self, match: re.Match[str]) -> str:
        head = match[1]
        found = _NAME_ONLY.search(head)
        name = found[0] if found else ""
        if _NO_SECRET_NAME.search(name):
            return match[0]
        quoted, single, several, bare = match.groups()[-4:]
        value = next((text for text in (quoted, single, several, bare) if text is not None), "")
        if several is not None:
            return head + "[" + _QUOTED.sub(lambda m: m[1] + self._kept(name, m[2]), several)
        return head + match[2][: len(match[2]) - len(value)] + self._kept(name, value)

    def _kept(self, name: str, value: str) -> str:
        """A switch such as HF_HUB_DISABLE_IMPLICIT_TOKEN=1 is no secret; a password of digits is one."""
        switch = value.isdigit() and len(value) <= 4 and "pass" not in name.lower()
        return value if switch or not value.strip(", ") else self._value(value)

    def _across_lines(self, text: str, seen: int) -> str:
        begin = _PEM_BEGIN.search(text) if seen & signs.PEM else None
        if self._in_pem or begin:
            end = _PEM_END.search(text, begin.end() if begin else 0)
            start, stop = begin.end() if begin else 0, end.start() if end else len(text)
            self._in_pem = end is None and (begin is not None or _looks_encoded(text))
            if stop > start and (begin or self._in_pem or end):
                body = _PEM_BODY.sub(lambda m: self._names.name("secret", m[0]), text[start:stop])
                text = text[:start] + body + text[stop:]
        if self._value_follows:
            self._value_follows = False
            if value := _VALUE_LINE.search(text):
                text = text[: value.start(2)] + self._value(value[2]) + text[value.end() :]
        if seen & signs.NAME_LINE:
            self._value_follows = len(text) < 1000 and _NAME_LINE.search(text) is not None
        return text


def _looks_encoded(text: str) -> bool:
    """A line inside a PEM block: one word of base64 (behind a shipper's prefix, maybe), or a header of it."""
    last = text.split()[-1:] or [""]
    return not text.strip() or len(last[0]) >= 16 or is_pseudonym(last[0]) or ": " in text


def is_secret_name(name: str) -> bool:
    """Whether what is called so is secret: `HF_TOKEN`, `--api-key`, `password`."""
    bare = name.lstrip("-")
    return _NAME_ONLY.fullmatch(bare) is not None and not _NO_SECRET_NAME.search(bare)
