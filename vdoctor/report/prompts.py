"""Prompts and answers of users in request logs: dropped, their lengths kept."""

from __future__ import annotations

import re

from vdoctor.report import signs
from vdoctor.report.pseudonyms import DROPPED, Pseudonyms

# vLLM prints them with %r, the rest of the record behind them. A line that was cut loses its end.
_RECORD = re.compile(r"(\b(?:prompt|output|decoder_prompt|encoder_prompt): )(?=[\"'])")
_BEHIND = re.compile(
    r"[\"'](?=, (?:params: |prompt_token_ids: |prompt_embeds shape: |output_token_ids: |finish_reason: |sampling_params: ))"
)
_TOKEN_IDS = re.compile(
    r"(\b(?:(?:prompt|output|new|all|decoder_prompt|encoder_prompt|input)_token_ids|input_ids|token_ids)[\"']?\s{0,4}[:=]\s{0,4})"
    r"(\[[\[\]0-9,. …-]*)"
)
_QUOTED = r"(?:\\?\"(?:[^\"\\\r\n]|\\.)*|\\?'(?:[^'\\\r\n]|\\.)*)"
# JSON bodies and printed dictionaries: messages, completions, embeddings, tool calls.
_KEYED = re.compile(
    rf"((?:\\?[\"'](?:content|prompt|text|reasoning_content|reasoning|arguments|suffix|input|query|documents|instructions|refusal)"
    rf"\\?[\"']\s{{0,4}}:|\b(?:prompt|content|user_prompt|system_prompt)=)\s{{0,4}})"
    rf"(?:({_QUOTED})|(\[\s{{0,4}})({_QUOTED})((?:[\"'],\s{{0,4}}{_QUOTED}){{0,2000}}))"
)
_KEY_SIGN = re.compile(r"[\"']\s{0,4}:")
_DATA_URL = re.compile(r"data:[\w.+/-]{1,60};base64,[A-Za-z0-9+/=_-]*")


def drop_prompts(text: str, names: Pseudonyms, seen: int) -> str:
    """One line without the prompts, answers and token ids in it; `seen` are its signs."""
    if seen & signs.RECORD:
        text = _records(text, names)
    if seen & signs.IDS:
        text = _TOKEN_IDS.sub(lambda m: _token_ids(m, names), text)
    if seen & signs.BASE64:
        text = _DATA_URL.sub(lambda m: names.drop(), text)
    if seen & signs.KEYED_TEXT and ("prompt=" in text or "content=" in text or _KEY_SIGN.search(text)):
        text = _KEYED.sub(lambda m: _quoted(m, names), text)
    return text


def _records(text: str, names: Pseudonyms) -> str:
    """A prompt may hold what looks like the rest of the record: the last such place ends it."""
    match = _RECORD.search(text)
    if match is None:
        return text
    ends = list(_BEHIND.finditer(text, match.end()))
    stop = ends[-1].start() if ends else len(text)
    quote = text[match.end()]
    body = text[match.end() + 1 : stop]
    if not body or body in (DROPPED, DROPPED + quote):
        return text
    return text[: match.end()] + quote + names.drop() + (text[stop:] if ends else quote)


def _token_ids(match: re.Match[str], names: Pseudonyms) -> str:
    numbers, _, rest = match[2].rpartition("]")
    if not any(c.isdigit() for c in match[2]):
        return match[0]
    return match[1] + names.drop() + (rest if numbers else "")


def _quoted(match: re.Match[str], names: Pseudonyms) -> str:
    """One text, or the first of a list, the rest of which goes with it."""
    first = match[2] if match[2] is not None else match[4]
    quote = first[: 2 if first.startswith("\\") else 1]
    if first[len(quote) :] in ("", DROPPED) and not match[5]:
        return match[0]
    return f"{match[1]}{match[3] or ''}{quote}{names.drop()}"
