"""Names of models: `owner/name` on a hub, names under which a server serves, adapters. Public ones stay.

A private `acme/secret-7b` becomes `org-1/model-1`; a name that is made of public words alone stays (`org-1/Llama-3.1-8B`).
"""

from __future__ import annotations

import re

from vdoctor.report import signs
from vdoctor.report.orgs import ORGS, PLACEHOLDERS, WORDS, is_plain
from vdoctor.report.places import is_ordinary
from vdoctor.report.pseudonyms import Pseudonyms

_PART = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}"
_REPO = rf"({_PART})/({_PART})"
#: Whole: a longer name or a folder below is another.
_ENDS = r"(?![\w/-]|\.\w)"
_QUOTE = r"\\?[\"'`]?"
_SEP = rf"{_QUOTE}(?:\s{{0,4}}[=:,]\s{{0,4}}|\s{{1,12}})\[?{_QUOTE}"
_KEY = (
    r"((?<![A-Za-z0-9])(?:(?:hf[_-]|draft[_-]|speculative[_-]|base[_-]|reward[_-]|served[_-])?model"
    r"(?:[_-](?:tag|path|name|id|name_or_path|dir|weights|config))?|--[a-z-]{0,20}model(?:-name|-path)?|serve|tokenizer"
    r"|repo(?:[_-]?id)?|repository|download|lora[_-](?:local[_-])?(?:path|name)|adapter|MODEL(?:_NAME|_PATH|_ID)?)"
)
#: acme/secret-7b where a word or an option before it says that a model follows. Longer paths are folders.
_KEYED = re.compile(rf"{_KEY}{_SEP}){_REPO}{_ENDS}")
_CALL = re.compile(
    rf"((?:from_pretrained|snapshot_download|hf_hub_download|list_repo_files|model_info)\(\s{{0,4}}{_QUOTE}){_REPO}{_ENDS}"
)
_REFUSED = re.compile(
    rf"((?:^|(?<=[\s\"'`:(])))(?:{_REPO}|({_PART}))(?=[\"'`]? (?:is not a local folder|is not a valid model|does not appear to have))"
)
_HUB = re.compile(
    r"((?:https?://(?:[A-Za-z0-9-]{1,63}\.){0,4}(?:huggingface\.co|hf\.co|hf-mirror\.com|modelscope\.cn|modelscope\.ai)|hf:/)"
    r"(?::\d{1,5})?/(?:api/)?(?:v\d/)?(?:resolve-cache/)?(?:models/|datasets/|spaces/)?)"
    rf"{_REPO}"
)
_RESOLVE = re.compile(
    rf"(://[^\s/\"'<>]{{1,255}}/(?:api/)?(?:models/|datasets/)?){_REPO}(?=/(?:resolve|tree|blob|raw|revision)/)"
)
#: A folder of a model, from where the server was started: outputs/run-7/step-900
_RELATIVE = re.compile(
    rf"((?:(?<![A-Za-z0-9-])(?:vllm serve|--model)(?:=|\s{{1,8}})|(?<![A-Za-z0-9])(?:model|tokenizer)=\\?[\"']){_QUOTE})"
    rf"({_PART}(?:/{_PART}){{2,20}})"
)
#: Folders of the hub's cache: two dashes stand for a slash, and are in no name.
_FOLDER = re.compile(
    r"((?:models|datasets|spaces)--)([A-Za-z0-9_.]{1,96}(?:-[A-Za-z0-9_.]{1,96}){0,20})"
    r"(?:--([A-Za-z0-9_.]{1,96}(?:-[A-Za-z0-9_.]{1,96}){0,20}))?(?!-)"
)
_NAME = r"([A-Za-z0-9][A-Za-z0-9_.:-]{1,95})(?![\w/(*-]|[.:\\]\w)"
#: A name without an owner: after = or in quotes it is one; after an option or `vllm serve` it must look like one.
_BARE = re.compile(
    r"((?<![A-Za-z0-9/])(?:base[_-])?model(?:[_-](?:name|id|tag))?(?:=\s{0,2}\[?"
    + _QUOTE
    + r"|\\?[\"']?\s{0,2}:\s{0,4}\[?\\?[\"']"
    r"|[\"' ]{1,3}`)|--model(?:=|\s{1,8}|[\"']\s?,\s{0,4})" + _QUOTE + r"|vllm serve\s{1,8}" + _QUOTE + r")" + _NAME
)
_SERVED = re.compile(
    r"((?:--served-model-name" + _QUOTE + r"(?:=|\s{1,8}|\s?,\s{0,4})" + _QUOTE + r"|(?<!-)served[_-]model[_-]name" + _QUOTE
    + r"\s{0,2}[=:]\s{0,4}\[?" + _QUOTE + r"|lora[_-]name" + _QUOTE + r"\s{0,2}[=:]\s{0,4}" + _QUOTE
    + r"|LoRAModulePath\(name=" + _QUOTE + r"|LoRA adapter\b.{0,20}? name " + _QUOTE + r"))(?:" + _REPO + _ENDS + r"|" + _NAME + r")"
)  # fmt: skip
_MORE = re.compile(r"((?:[\"']\s?,\s{0,4}[\"']|\s{1,8})" + _QUOTE + r")(?:" + _REPO + _ENDS + r"|" + _NAME + r")")
_MODULES = re.compile(r"(--lora-modules\s{1,8})((?:[\w.:-]{1,96}=\S{1,400}\s{0,8}){1,16})")
_MODULE = re.compile(r"([A-Za-z0-9][\w.:-]{0,95})=(\S+)")
_OPTION_LINE = re.compile(
    r"(?:^|[\s\"'-])--(?:served-model-name|model|tokenizer)[\"']?,?\s{0,8}\\?$|\bvllm serve\s{0,8}\\$"
)
_OPTION_ENDS = ("--model", "-name", "--tokenizer", "'", '"', ",", "\\")
_LISTED = re.compile(rf"^(\s{{0,80}}(?:-\s{{1,4}})?[\"']?)(?:{_REPO}{_ENDS}|{_NAME})")

_HIDDEN = re.compile(r"(?:org|model|model-path|secret|host|user)-\d{1,9}(?![A-Za-z0-9])")
#: First parts of paths on a hub's pages that are no owners.
_PATHS = (
    "docs blog settings models datasets spaces join login pricing papers tasks organizations api chat new learn posts"
)
_PAGES = frozenset(f"{_PATHS} collections repos".split())
#: Words of sentences and of Python that may stand where a name stands.
_SENTENCE = """
is must or and to the a an in of for from with not was has can cannot argument option flag should will be if as when none null
true false auto str string optional list dict any class type self name args config executor runner loader registry
impl info state file files dir path code https http requests request this that your my field value undefined unknown expected given
"""
_WORDS = frozenset(_SENTENCE.split())
_CLASS = re.compile(
    r"[A-Z]\w*(?:For[A-Z]\w*|Model|Config|Runner|Loader|Registry|Executor)$|.*\.(?:py|so|cpp|cu|json|txt|yaml|log)$"
)
_PAIRS = frozenset(
    ("n/a", "and/or", "input/output", "cpu/gpu", "read/write", "on/off", "yes/no", "true/false", "train/eval")
)


class ModelNames:
    """Hides names of models. Keeps whether the line before ended in an option whose value comes on the next."""

    def __init__(self, names: Pseudonyms) -> None:
        self._names = names
        self._follows = False

    def line(self, text: str, seen: int) -> str:
        """One line, `seen` being its signs; lines must come in their order."""
        names = self._names
        if self._follows:
            self._follows = False
            text = _LISTED.sub(lambda m: m[1] + _either(m[2], m[3], m[4], names, strong=True), text)
        if text.endswith(_OPTION_ENDS) and len(text) < 1000:
            self._follows = _OPTION_LINE.search(text) is not None
        if not seen & (signs.MODEL | signs.HUB | signs.REFUSED):
            return text
        if seen & signs.HUB:
            text = _HUB.sub(lambda m: m[1] + (_keep(m) if m[2] in _PAGES else _pair(m[2], m[3], names)), text)
            text = _RESOLVE.sub(lambda m: m[1] + _pair(m[2], m[3], names), text)
            text = _FOLDER.sub(lambda m: m[1] + _folder(m[2], m[3], names), text)
        if seen & signs.MODEL:
            if "/" in text:
                text = _RELATIVE.sub(lambda m: m[1] + _relative(m[2], names), text)
                text = _KEYED.sub(lambda m: m[1] + _keyed(m, names), text)
                text = _CALL.sub(lambda m: m[1] + _pair(m[2], m[3], names), text)
            text = _BARE.sub(lambda m: m[1] + _single(m[2], names, strong=False), text)
            text = self._served(text)
        if seen & signs.REFUSED:
            text = _REFUSED.sub(lambda m: m[1] + _either(m[2], m[3], m[4], names, strong=False), text)
        return text

    def _served(self, text: str) -> str:
        """Names under which a model or an adapter is served: an option or a list takes several."""
        names, parts, at = self._names, [], 0
        for match in _SERVED.finditer(text):
            if match.start() < at:
                continue
            parts += [text[at : match.end(1)], _either(match[2], match[3], match[4], names, strong=True)]
            at = match.end()
            option = match[1].startswith("--") or "[" in match[1]
            while option and (more := _MORE.match(text, at)) and _is_name(more[2] or more[4] or "", strong=False):
                parts += [more[1], _either(more[2], more[3], more[4], names, strong=True)]
                at = more.end()
        text = "".join((*parts, text[at:]))
        if "--lora-modules" in text:
            text = _MODULES.sub(lambda m: m[1] + _MODULE.sub(lambda one: _module(one, names), m[2]), text)
        return text


def hide_name(name: str, names: Pseudonyms) -> str:
    """What stands for a name that is known to be a model's; paths are left to others."""
    owner, slash, rest = name.partition("/")
    if not slash:
        return _single(name, names, strong=True)
    return name if "/" in rest or not owner or not rest else _pair(owner, rest, names)


def is_public(owner: str) -> bool:
    """An owner whom everybody knows, or that stands for any."""
    low = owner.lower()
    return low in ORGS or low in PLACEHOLDERS or len(low) < 2 or _HIDDEN.match(low) is not None


def _relative(path: str, names: Pseudonyms) -> str:
    return path if _CLASS.match(path) or _HIDDEN.match(path) else names.name("model-path", path, everywhere=True)


def _keep(match: re.Match[str]) -> str:
    return f"{match[2]}/{match[3]}"


def _keyed(match: re.Match[str], names: Pseudonyms) -> str:
    """In a sentence (`model a/b`) it must look like a repository: `model FP8/INT8` is none."""
    pair = f"{match[2]}/{match[3]}"
    if pair.lower() in _PAIRS:
        return pair
    if match[1][-1].isspace() and not match[1].lstrip().startswith("--"):
        marked = any(c.isdigit() or c in "-_" or c.isupper() for c in pair)
        if not marked or is_plain(match[2]):
            return pair
    return _pair(match[2], match[3], names)


def _pair(owner: str, name: str, names: Pseudonyms) -> str:
    """`owner/name`; the points behind it end a sentence."""
    bare = name.rstrip(".-")
    rest = name[len(bare) :]
    if is_public(owner) or not bare or _CLASS.match(bare):
        return f"{owner}/{name}"
    hidden = f"{_owner(owner, names)}/{_one(bare, names)}"
    names.know("model", f"{owner}/{bare}", hidden)
    return hidden + rest


def _owner(owner: str, names: Pseudonyms) -> str:
    telling = len(owner) >= 4 and (any(c.isdigit() or c in "-_" for c in owner) or len(owner) >= 6)
    return names.name("org", owner, everywhere=telling and not is_ordinary(owner) and owner.lower() not in WORDS)


def _one(name: str, names: Pseudonyms) -> str:
    """The name of a model that is not public by its owner."""
    if is_plain(name) or _HIDDEN.match(name):
        return name
    return names.name("model", name, everywhere=len(name) >= 5 and any(c.isdigit() or c in "-_" for c in name))


def _single(name: str, names: Pseudonyms, *, strong: bool) -> str:
    bare = name.rstrip(".:-")
    return _one(bare, names) + name[len(bare) :] if _is_name(bare, strong=strong) else name


def _is_name(name: str, *, strong: bool) -> bool:
    """Whether it can be a model's name: words of a sentence, classes and files are none. Where the place does not say
    so for certain it needs a digit or a dash.
    """
    if len(name) < 3 or name.lower() in _WORDS or _CLASS.match(name) or name.replace(".", "").isdigit():
        return False
    return strong or any(c.isdigit() or c in "-_" for c in name)


def _either(owner: str | None, name: str | None, single: str | None, names: Pseudonyms, *, strong: bool) -> str:
    if owner is not None and name is not None:
        return _pair(owner, name, names)
    return _single(single or "", names, strong=strong)


def _folder(owner: str, name: str | None, names: Pseudonyms) -> str:
    if name is None:
        return _single(owner, names, strong=False)
    return _pair(owner, name, names).replace("/", "--")


def _module(match: re.Match[str], names: Pseudonyms) -> str:
    """`name=path` of --lora-modules."""
    return f"{_single(match[1], names, strong=True)}={hide_name(match[2], names)}"
