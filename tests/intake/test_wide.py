"""UTF-16 with plain text appended: both are read, however the bytes are cut."""

from __future__ import annotations

import random

import pytest

from vdoctor.intake.splitter import LineSplitter
from vdoctor.intake.wide import WideDecoder

WIDE = "INFO 12-01 10:00:00 [core.py:9] Starting to load model 模型/权重文件夹...\n"
PLAIN = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\nEngine 模型 died\n"
ORDERS = ("utf-16-le", "utf-16-be")


@pytest.mark.parametrize("encoding", ORDERS)
def test_plain_text_behind_and_between_wide_text_is_read(encoding: str) -> None:
    data = (WIDE.encode(encoding) + PLAIN.encode()) * 2 + WIDE.encode(encoding)
    assert WideDecoder(encoding).decode(data, final=True) == (WIDE + PLAIN) * 2 + WIDE


@pytest.mark.parametrize("encoding", ORDERS)
def test_chunks_do_not_matter(encoding: str) -> None:
    dice = random.Random(4)
    for _ in range(300):
        parts = [dice.choice([WIDE.encode(encoding), PLAIN.encode(), dice.randbytes(5), b"\0", b"x" * 40])
                 for _ in range(dice.randrange(1, 6))]  # fmt: skip
        data = b"".join(parts)
        whole = WideDecoder(encoding).decode(data, final=True)
        decoder, text, at = WideDecoder(encoding), "", 0
        while at < len(data):
            step = dice.choice([1, 2, 3, 50])
            text += decoder.decode(data[at : at + step])
            at += step
        assert text + decoder.decode(b"", final=True) == whole


@pytest.mark.parametrize("encoding", ORDERS)
def test_chinese_text_stays_wide(encoding: str) -> None:
    dice = random.Random(7)
    text = "".join(chr(dice.randrange(0x4E00, 0x9FA5)) for _ in range(20_000))
    assert WideDecoder(encoding).decode(text.encode(encoding), final=True) == text


def test_log_written_by_two_shells_is_read() -> None:
    splitter = LineSplitter()
    lines = splitter.feed(b"\xff\xfe" + WIDE.encode("utf-16-le") + PLAIN.encode()) + splitter.close()
    assert [line.text for line in lines if line.text] == (WIDE + PLAIN).splitlines()
    assert [line.no for line in lines][:3] == [1, 2, 3]
