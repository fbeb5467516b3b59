"""What the tests of speech share: the scenes, and how near a transcript is to what is said in them."""

from __future__ import annotations

from bench.speech import score
from contracts.api import meeting
from hack.voice import Said

NEAR = 0.5
"""Seconds by which a time may be wrong."""


def error_rate(said: list[Said], transcript: meeting.Transcript) -> float:
    """Errors per word that is said."""
    return score.rate(" ".join(each.words for each in said), " ".join(each.text for each in transcript.segments))


def blocks(said: list[Said], pause: float) -> list[tuple[float, float]]:
    """(first second, last second) of what is said between two pauses of `pause` seconds or more."""
    joined: list[tuple[float, float]] = []
    for each in said:
        if joined and each.start - joined[-1][1] < pause:
            joined[-1] = (joined[-1][0], each.end)
        else:
            joined.append((each.start, each.end))
    return joined


def misplaced(said: list[Said], transcript: meeting.Transcript, pause: float = 3) -> list[str]:
    """Blocks whose segments begin or end elsewhere, and segments that are in no block."""
    wrong = []
    segments = list(transcript.segments)
    for start, end in blocks(said, pause):
        own = [each for each in segments if each.start < end and each.end > start]
        segments = [each for each in segments if each not in own]
        if not own:
            wrong.append(f"{start:.2f}-{end:.2f}: nothing")
        elif abs(own[0].start - start) > NEAR or abs(own[-1].end - end) > NEAR:
            wrong.append(f"{start:.2f}-{end:.2f}: {own[0].start:.2f}-{own[-1].end:.2f}")
    return wrong + [f"{each.start:.2f}-{each.end:.2f}: {each.text}, where nobody speaks" for each in segments]
