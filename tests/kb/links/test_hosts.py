"""A host that does not answer is left alone for a while, longer each time, and forgotten when it answers."""

from __future__ import annotations

from kb.links import hosts


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_failures_close_a_host_and_an_answer_opens_it() -> None:
    clock = Clock()
    kept = hosts.Hosts(clock)
    closed = []
    kept.answered("a.example", away=True, seconds=5.0)
    assert kept.closed("a.example") == 0.0
    for _ in range(12):
        kept.answered("a.example", away=True, seconds=5.0)
        closed.append(kept.closed("a.example"))
        assert kept.closed("b.example") == 0.0
        clock.now += closed[-1]
        assert kept.closed("a.example") == 0.0, "once it is asked again"
    assert closed[:5] == [60.0, 120.0, 240.0, 480.0, 900.0]
    assert set(closed[5:]) == {900.0}
    kept.answered("a.example", away=False, seconds=hosts.SLOW)
    assert kept.closed("a.example") == 900.0, "a slow answer is a failure as well"
    kept.answered("a.example", away=False, seconds=0.1)
    assert (kept.closed("a.example"), len(kept)) == (0.0, 0)


def test_what_is_remembered_is_bounded() -> None:
    kept = hosts.Hosts(Clock())
    for number in range(10_050):
        kept.answered(f"h{number}.example", away=True, seconds=0.0)
    assert len(kept) == 10_000
