"""Streams of JSON are split where a record ends, wherever their bytes are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from crds import jsonlines

_TEXTS = st.text(st.sampled_from("a\n\r\x0b\x85\u2028\u2029é "))


@given(st.lists(_TEXTS))
def test_a_record_that_we_write_is_one_line_to_every_reader(texts: list[str]) -> None:
    line = jsonlines.line(json.dumps(texts, ensure_ascii=False))
    assert [json.loads(each) for each in line.decode().splitlines()] == [texts]


@given(st.lists(_TEXTS, max_size=5), st.integers(1, 7), st.booleans())
async def test_a_record_is_whole(texts: list[str], size: int, ended: bool) -> None:
    body = b"\n".join(json.dumps(text, ensure_ascii=False).encode() for text in texts) + (b"\n \n" if ended else b"")

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    assert [json.loads(line) async for line in jsonlines.split(pieces())] == texts
