"""The request log never waits for its reader."""

from __future__ import annotations

import os

from router.lines import Lines


def test_lines_are_written_in_order() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as reader:
        with open(writing, "wb") as to:
            lines = Lines(to, lambda: None)
            for number in range(100):
                lines.put(b"%d\n" % number)
            lines.close(10)
        assert reader.read() == b"".join(b"%d\n" % number for number in range(100))


def test_a_pipe_that_is_not_read_costs_lines_and_no_time() -> None:
    reading, writing = os.pipe()
    dropped: list[int] = []
    lines = Lines(open(writing, "wb"), lambda: dropped.append(1), most=10)  # noqa: SIM115  its thread keeps it
    line = b"x" * 4095 + b"\n"
    for _ in range(200):
        lines.put(line)  # a pipe holds 64 KiB
    assert len(dropped) >= 100
    os.close(reading)
