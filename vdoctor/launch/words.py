"""The words of a server's arguments: which are options, how many words each takes, which one is the model."""

from __future__ import annotations

from collections.abc import Sequence

from vdoctor.launch.options import OptionTable

# An option that no release has, and whose name begins so, was a switch wherever it came from.
_SWITCHES = ("enable", "disable", "no", "use")


def normal(word: str) -> str:
    """`--max_model_len=1` and `--max-model-len` are one option to vLLM's parser."""
    name = word.partition("=")[0]
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def is_option(word: str) -> bool:
    """Whether argparse takes a word for an option; negative numbers are values."""
    return word.startswith("-") and word not in ("-", "--") and not _is_number(word)


def end_of_options(args: Sequence[str]) -> int:
    """Index of `--`, behind which nothing is an option; the length when there is none."""
    return list(args).index("--") if "--" in args else len(args)


def spells(word: str, flag: str, options: OptionTable, version: str | None) -> bool:
    """Whether a word is this option in any of its spellings; `--flag.key` belongs to `--flag`."""
    if not is_option(word):
        return False
    name, wanted = normal(word), normal(flag)
    if name == wanted:
        return True
    if "." in wanted:
        return False
    name = name.partition(".")[0]
    left = options.lookup(name, version, allow_abbrev=True)
    right = options.lookup(wanted, version)
    return name == wanted or (left is not None and right is not None and left.name == right.name)


def width(args: Sequence[str], at: int, options: OptionTable, version: str | None, model: bool = True) -> int:
    """Number of words of the option at `at`, its values included. `model`: the model may be a bare word."""
    known = _known_width(args, at, options, version)
    if known is not None:
        return known
    following = at + 1
    if normal(args[at]).strip("-").partition("-")[0] in _SWITCHES or _ends(args, following):
        return 1
    if model and model_at(args, options, version) == following:
        return 1
    following += 1
    while not _ends(args, following) and _is_value(args[following]) and _is_value(args[following - 1]):
        following += 1
    return following - at


def model_at(args: Sequence[str], options: OptionTable, version: str | None) -> int | None:
    """Index of the bare word that is the model; None when there is none, or `--model` names it.

    Behind an option that no release has stands its value or the model: of several such words the
    one that looks like a path is the model, else the last.
    """
    sure: list[int] = []
    doubtful: list[int] = []
    at, unknown = 0, False
    end = end_of_options(args)
    while at < end:
        if is_option(args[at]):
            if spells(args[at], "--model", options, version):
                return None
            known = _known_width(args, at, options, version)
            at, unknown = at + (known or 1), known is None
            continue
        if not _is_value(args[at]):
            (doubtful if unknown else sure).append(at)
        at, unknown = at + 1, False
    sure += range(end + 1, len(args))
    if sure:
        return sure[0]
    paths = [spot for spot in doubtful if "/" in args[spot]]
    return paths[0] if len(paths) == 1 else doubtful[-1] if doubtful else None


def _known_width(args: Sequence[str], at: int, options: OptionTable, version: str | None) -> int | None:
    """None for an option that no release has and whose value, if any, stands apart."""
    if "=" in args[at]:
        return 1
    name, dot, _ = normal(args[at]).partition(".")
    option = options.lookup(name, version, allow_abbrev=True) or options.lookup(name, None)
    if option is None:
        return None
    if dot and len(name) > 1:
        return 1 if _ends(args, at + 1) else 2
    if option.kind == "flag" or options.takes_value(name, version) is False:
        return 1
    following = at + 1
    if option.kind == "many":
        while not _ends(args, following):
            following += 1
        return following - at
    return 1 if _ends(args, following) else 2


def _ends(args: Sequence[str], at: int) -> bool:
    """No value at `at`: the words are over, or an option stands there."""
    return at >= len(args) or args[at] == "--" or is_option(args[at])


def _is_value(word: str) -> bool:
    """No model is called so: a number, JSON, a truth value, nothing."""
    return _is_number(word) or word[:1] in ("", "{", "[") or word.lower() in ("true", "false", "none", "auto")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
