"""The voice filter: which stretches of a recording hold speech, and what is joined into one request to the model.

    pieces (sound) -> stretches of speech -> excerpts: joined stretches, with their times in the recording

Whisper hears words in silence ("You", "Thank you."), and silence costs it as much as speech. Memory is bounded by
`WINDOW`, `LONGEST` and `EXCERPT`, whatever the length of the recording. Source: decision 0173.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from orchestrator_job.transcribe.sound import RATE, Samples

WINDOW = 60 * RATE
"""Samples that are looked at together."""
LONGEST = 30 * RATE
"""Of a stretch, but for its beginning: longer speech is cut at a short pause. As much as Whisper hears at once."""
EXCERPT = 240 * RATE
"""Speech that goes to the model together; an excerpt is at most `LONGEST` longer."""
PAUSE = 2 * RATE
"""Silence that separates two stretches."""
PADDING = RATE * 2 // 5
"""Silence that stays on both sides of a stretch, where the recording has it."""

SURE, RISING = 0.5, 0.2
"""Silero's probability of speech in a stretch, and where it begins; in noise it stays below 0.1."""
ONSET = RATE
"""By how much Whisper's time of the first word after a pause may be late: half of it was measured. The voice filter
hears where speech begins to a tenth of a second."""

Find: TypeAlias = Callable[[Samples], list[tuple[int, int]]]
"""Samples -> (first, end) of each stretch, with its padding, none longer than `LONGEST` and `PAUSE`."""


@dataclass(frozen=True)
class Stretch:
    """Speech that begins at sample `start` of the recording."""

    start: int
    samples: Samples


Word: TypeAlias = tuple[float, float, str]
"""(first second, last second, text with its blank)."""


@dataclass(frozen=True)
class Excerpt:
    """Stretches, joined for the model."""

    stretches: tuple[Stretch, ...]

    def joined(self) -> Samples:
        """What the model hears."""
        return np.concatenate([stretch.samples for stretch in self.stretches])

    def segments(self, pieces: Iterable[Iterable[Word]]) -> list[Word]:
        """Pieces of words with seconds of the joined sound -> segments with seconds of the recording.

        No segment reaches over a pause that was taken out: the model hears both sides of it as one sentence. A word
        that lies in the silence of such a pause belongs where the word is that is nearer to it. The first word after a
        pause begins with the speech.
        """
        runs = self._runs()
        placed = [
            (number, word, max((*run.overlap(word[0], word[1]), -place) for place, run in enumerate(runs)))
            for number, piece in enumerate(pieces)
            for word in piece
        ]
        sure = [(word, -best[2]) for _, word, best in placed if best[0] > 0]
        segments: list[Word] = []
        opened: set[int] = set()
        before = (-1, -1)
        for number, (start, end, text), (shared, _, best) in placed:
            place = -best
            if not shared and sure:
                # Of two words that are as near that of the nearer run.
                place = min(sure, key=lambda each: (_apart(each[0], start, end), each[1] != place))[1]
            first, last = runs[place].restored(start, end, opens=place not in opened)
            opened.add(place)
            if (number, place) == before:
                begun, until, said = segments.pop()
                segments.append((begun, max(until, last), said + text))
            else:
                segments.append((first, last, text))
            before = number, place
        return segments

    def _runs(self) -> list[_Run]:
        """Stretches without a pause between them are one run."""
        runs: list[_Run] = []
        total = 0
        for stretch in self.stretches:
            length = len(stretch.samples)
            if runs and runs[-1].start + runs[-1].length == stretch.start:
                runs[-1] = _Run(runs[-1].start, runs[-1].begin, runs[-1].length + length)
            else:
                runs.append(_Run(stretch.start, total, length))
            total += length
        return runs


def _apart(word: Word, start: float, end: float) -> float:
    """Seconds between a word and a time, to a millisecond."""
    return round(max(word[0] - end, start - word[1], 0.0), 3)


@dataclass(frozen=True)
class _Run:
    """`length` samples from `start` in the recording and from `begin` in the joined sound."""

    start: int
    begin: int
    length: int

    def overlap(self, start: float, end: float) -> tuple[float, float]:
        """How much of these seconds of the joined sound is speech of this run; then how near they are to it.

        Padding does not count: a word is drawn out over the silence beside it.
        """
        first, last = (self.begin + PADDING) / RATE, (self.begin + self.length - PADDING) / RATE
        middle = (start + end) / 2
        return max(0.0, min(end, last) - max(start, first)), -max(first - middle, middle - last, 0.0)

    def restored(self, start: float, end: float, *, opens: bool) -> tuple[float, float]:
        """Seconds of the joined sound -> of the recording, inside this run. Its speech begins after its padding, which
        only the beginning of a recording cuts short; a word that `opens` it begins there."""
        silent = PADDING if self.start else 0
        first = min(max(round(start * RATE) - self.begin, silent), self.length)
        if opens and first <= silent + ONSET:
            first = min(silent, self.length)
        last = min(max(round(end * RATE) - self.begin, first), self.length)
        return (self.start + first) / RATE, (self.start + last) / RATE


def stretches(pieces: Iterable[Samples], find: Find) -> Iterator[Stretch]:
    """Speech in its order. What may go on after a window is looked at again with the next one."""
    begin = waiting = 0
    parts: list[Samples] = []

    def speech(final: bool) -> Iterator[Stretch]:
        nonlocal begin, waiting, parts
        window = np.concatenate(parts)
        kept = len(window) if final else max(0, len(window) - PADDING)
        for start, end in find(window):
            if not final and end > len(window) - PAUSE and start > 0:
                kept = min(kept, start)
                break
            yield Stretch(begin + start, window[start:end].copy())
            kept = max(kept, end)
        begin += kept
        parts = [window[kept:].copy()]
        waiting = len(window) - kept

    for piece in pieces:
        parts.append(piece)
        waiting += len(piece)
        if waiting >= WINDOW:
            yield from speech(False)
    if waiting:
        yield from speech(True)


def excerpts(speech: Iterable[Stretch]) -> Iterator[Excerpt]:
    """Stretches, joined until they have `EXCERPT` samples."""
    joined: list[Stretch] = []
    for stretch in speech:
        joined.append(stretch)
        if sum(len(each.samples) for each in joined) >= EXCERPT:
            yield Excerpt(tuple(joined))
            joined = []
    if joined:
        yield Excerpt(tuple(joined))


def silero(samples: Samples) -> list[tuple[int, int]]:
    """Stretches as Silero's model finds them, which comes with faster-whisper and runs on onnxruntime.

    After long silence or noise the model takes a second or two to be sure of speech, although it rises at its first
    sound. So a stretch of which it is sure begins where it thinks of speech at all, up to `PAUSE` earlier.
    """
    from faster_whisper import vad

    def spans(threshold: float) -> list[tuple[int, int]]:
        options = vad.VadOptions(
            threshold=threshold,
            max_speech_duration_s=LONGEST / RATE,
            min_silence_duration_ms=PAUSE * 1000 // RATE,
            speech_pad_ms=PADDING * 1000 // RATE,
        )
        return [(span["start"], span["end"]) for span in vad.get_speech_timestamps(samples, options)]

    sure = spans(SURE)
    return begun(sure, spans(RISING)) if sure else []


def begun(sure: Sequence[tuple[int, int]], rising: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """`sure` stretches, each from the beginning of the `rising` one in which it begins: not before the one before it
    ends, and up to `PAUSE` earlier."""
    speech: list[tuple[int, int]] = []
    for start, end in sure:
        rises = max((first for first, last in rising if first <= start < last), default=start)
        speech.append((max(rises, start - PAUSE, speech[-1][1] if speech else 0), end))
    return speech
