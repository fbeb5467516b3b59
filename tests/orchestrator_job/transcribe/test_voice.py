"""The voice filter with a filter by loudness in the place of Silero's: what is kept, in which pieces, and its times."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from orchestrator_job.transcribe import voice
from orchestrator_job.transcribe.sound import RATE, Samples
from orchestrator_job.transcribe.voice import LONGEST, PADDING, PAUSE, WINDOW, Excerpt, Stretch


def loud(samples: Samples) -> list[tuple[int, int]]:
    """Stretches of loud samples, as Silero's model gives them: apart by `PAUSE`, padded, none longer than `LONGEST`."""
    marks = np.flatnonzero(samples > 0.5)
    if not len(marks):
        return []
    breaks = np.flatnonzero(np.diff(marks) >= PAUSE)
    starts = [marks[0], *marks[breaks + 1]]
    ends = [*marks[breaks], marks[-1]]
    spans: list[tuple[int, int]] = []
    for first, last in zip(starts, ends, strict=True):
        start, end = max(0, int(first) - PADDING), min(len(samples), int(last) + 1 + PADDING)
        spans.extend((cut, min(end, cut + LONGEST)) for cut in range(start, end, LONGEST))
    return spans


def recording(*parts: tuple[float, float]) -> Iterator[Samples]:
    """(seconds, loudness) in pieces of a tenth of a second."""
    for seconds, loudness in parts:
        for _ in range(round(seconds * 10)):
            yield np.full(RATE // 10, loudness, np.float32)


def seconds(found: list[Stretch]) -> list[tuple[float, float]]:
    return [(each.start / RATE, (each.start + len(each.samples)) / RATE) for each in found]


@pytest.mark.parametrize("before", [0.5, 10, 57.0, 58.5, 59.8, 60.0, 61.0, 119.5, 500])
def test_speech_is_found_wherever_a_window_ends(before: float) -> None:
    found = list(voice.stretches(recording((before, 0), (5, 1), (3, 0), (1, 1), (10, 0)), loud))
    begin = before + 5 + 3
    expected = [(max(0, before - 0.4), before + 5.4), (begin - 0.4, begin + 1.4)]
    assert seconds(found) == [pytest.approx(each) for each in expected]
    assert [float(each.samples.sum()) for each in found] == [5 * RATE, RATE]


def test_speech_without_a_pause_is_cut_and_nothing_of_it_is_lost() -> None:
    found = list(voice.stretches(recording((1, 0), (300, 1), (5, 0)), loud))
    assert sum(float(each.samples.sum()) for each in found) == 300 * RATE
    assert max(len(each.samples) for each in found) <= LONGEST
    assert all(after.start == each.start + len(each.samples) for each, after in itertools.pairwise(found))


def test_no_more_than_two_windows_are_in_memory() -> None:
    lengths: list[int] = []

    def find(samples: Samples) -> list[tuple[int, int]]:
        lengths.append(len(samples))
        return loud(samples)

    hours = recording(*[(7.0, 1.0), (50, 0), (100, 1), (1500, 0)] * 5)
    sizes = [len(each.joined()) for each in voice.excerpts(voice.stretches(hours, find))]
    assert max(lengths) < 2 * WINDOW
    assert max(sizes) < voice.EXCERPT + LONGEST
    assert sum(sizes) / RATE == pytest.approx(5 * (107 + 4 * 0.4), abs=1)


def test_silence_gives_nothing() -> None:
    assert list(voice.excerpts(voice.stretches(recording((600, 0)), loud))) == []
    assert list(voice.excerpts(voice.stretches(recording(), loud))) == []


def excerpt(*stretches: tuple[float, float]) -> Excerpt:
    """Of (first second, seconds)."""
    return Excerpt(
        tuple(Stretch(round(at * RATE), np.zeros(round(length * RATE), np.float32)) for at, length in stretches)
    )


def test_a_stretch_begins_where_its_speech_rises() -> None:
    sure = [(10 * RATE, 12 * RATE), (20 * RATE, 25 * RATE), (26 * RATE, 30 * RATE), (40 * RATE, 41 * RATE)]
    rising = [(9 * RATE, 12 * RATE), (19 * RATE, 30 * RATE), (33 * RATE, 42 * RATE), (50 * RATE, 60 * RATE)]
    assert [(start / RATE, end / RATE) for start, end in voice.begun(sure, rising)] == [
        (9, 12),
        (19, 25),
        (25, 30),
        (38, 41),
    ]
    assert voice.begun(sure, []) == sure


def test_a_segment_ends_where_a_pause_was_taken_out() -> None:
    words = [(0.1, 1.0, " One"), (1.0, 4.9, " two."), (4.9, 5.9, " Three"), (5.9, 7, " four.")]
    segments = excerpt((10, 5), (60, 5)).segments([words])
    assert segments == [(10.4, 14.9, " One two."), (60.4, 62, " Three four.")]


def test_a_word_drawn_out_over_the_silence_beside_it_belongs_to_its_speech() -> None:
    parts = excerpt((10, 5), (60, 5), (90, 5))
    assert parts.segments([[(4.7, 5.5, " After")]]) == [(60.4, 60.5, " After")]
    assert parts.segments([[(4.5, 5.2, " before")]]) == [(14.5, 15, " before")]
    assert parts.segments([[(9.7, 10.2, " between")]])[0][0] >= 60


def test_a_word_in_the_silence_between_a_long_run_and_a_short_one_belongs_to_the_nearer_edge() -> None:
    words = [(28, 29.3, " we"), (29.65, 29.9, " agree."), (30.5, 31.5, " Next.")]
    segments = excerpt((0, 30), (1000, 2)).segments([words])
    assert segments == [(28, 29.9, " we agree."), (1000.4, 1001.5, " Next.")]
    [(start, end, _)] = excerpt((10, 2), (1000, 30)).segments([[(2.05, 2.35, " I")]])
    assert (start, end) == (1000.4, 1000.4)


def test_a_word_in_the_silence_between_two_runs_stays_with_the_word_that_is_nearer() -> None:
    words = [(4.0, 4.5, " the key."), (4.94, 5.06, " It"), (5.06, 5.6, " does not.")]
    segments = excerpt((10, 5), (60, 5)).segments([words])
    assert segments == [(14, 14.5, " the key."), (60.4, 60.6, " It does not.")]
    words[1] = (4.8, 5.0, " It")
    words[2] = (5.5, 5.9, " Next.")
    assert [text for _, _, text in excerpt((10, 5), (60, 5)).segments([words])] == [" the key. It", " Next."]


def test_speech_that_was_only_cut_stays_one_segment() -> None:
    parts = excerpt((0, 30), (30, 30), (100, 5))
    assert parts.segments([[(0.0, 29, " One"), (29, 31, " two"), (31, 60.9, " three"), (60.9, 62, " four")]]) == [
        (0, 60, " One two three"),
        (100.4, 102, " four"),
    ]


def test_the_first_word_after_a_pause_begins_with_the_speech_and_no_other_one() -> None:
    pieces: list[list[voice.Word]] = [
        [(0.9, 1.2, " Yes.")],
        [(1.3, 2.0, " We"), (2.0, 2.5, " do.")],
        [(6.6, 8, " Late.")],
    ]
    segments = excerpt((10, 5), (60, 5)).segments(pieces)
    assert segments == [(10.4, 11.2, " Yes."), (11.3, 12.5, " We do."), (61.6, 63, " Late.")]


def test_times_stay_inside_the_recording() -> None:
    assert excerpt((3, 2)).segments([[(-1, 50, " word")]]) == [(3.4, 5, " word")]
