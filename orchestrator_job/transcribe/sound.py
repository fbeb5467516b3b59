"""The sound of a recording in pieces, so that hours of it are never in memory at once.

A piece is a block of mono float32 samples between -1 and 1, `RATE` a second, in the order of the recording; it is as
long as a packet of the file. Packets that are damaged are left out, as players do. Silence takes the place of what is
missing by the recording's clock, so that times after it are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import structlog
from numpy.typing import NDArray

from orchestrator_job.transcribe.errors import Unusable

if TYPE_CHECKING:
    import av

Samples: TypeAlias = NDArray[np.float32]
log = structlog.get_logger("transcribe")

RATE = 16_000
"""Samples a second, as Whisper takes them."""
GAP = 0.2
"""Seconds that a clock may be ahead of the sound without a gap in it."""
LONGEST = 12 * 3600.0
"""Seconds of a recording up to which gaps are filled: a clock that is ahead of that is wrong."""


def pieces(recording: Path) -> Iterator[Samples]:
    """The first track of sound. Raises `Unusable` where nothing of it can be decoded."""
    import av

    damaged = 0
    # Of sound and silence so far; the clock when they began.
    seconds, began = 0.0, None
    shape: tuple[str, str, int] | None = None
    resampler: av.AudioResampler | None = None
    try:
        with av.open(str(recording), metadata_errors="ignore") as container:
            if not container.streams.audio:
                raise Unusable("The recording cannot be decoded: it has no sound.", field="audio")
            length = min(container.duration / av.time_base, LONGEST) if container.duration else LONGEST
            for packet in container.demux(container.streams.audio[0]):
                try:
                    frames = packet.decode()
                except av.error.FFmpegError:
                    # Decoders have other errors than InvalidDataError for what they cannot read.
                    damaged += 1
                    continue
                for frame in frames:
                    gap = 0.0
                    if frame.time is not None:
                        began = frame.time - seconds if began is None else began
                        gap = min(frame.time - began, length) - seconds
                    if gap > GAP or (frame.format.name, frame.layout.name, frame.sample_rate) != shape:
                        # Another rate or layout in the middle, as streams have it, is another resampler.
                        yield from _rest(resampler)
                        shape = (frame.format.name, frame.layout.name, frame.sample_rate)
                        resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
                    if gap > GAP:
                        yield from _silence(gap)
                        seconds += gap
                    # A clock that jumps back is no error: the order counts.
                    frame.pts = None
                    yield from _samples(resampler, frame)
                    seconds += frame.samples / frame.sample_rate
    except (av.error.FFmpegError, ValueError) as error:
        if not seconds:
            raise Unusable(f"The recording cannot be decoded: {error}", field="audio") from error
        log.warning("the recording ends early", seconds=seconds, reason=str(error))
    yield from _rest(resampler)
    if damaged and not seconds:
        raise Unusable(f"The recording cannot be decoded: all {damaged} packets are damaged.", field="audio")
    if damaged:
        log.warning("packets are damaged", packets=damaged)


def _samples(resampler: av.AudioResampler | None, frame: av.AudioFrame | None) -> Iterator[Samples]:
    for resampled in resampler.resample(frame) if resampler else ():
        yield resampled.to_ndarray()[0].astype(np.float32) / 32768


def _rest(resampler: av.AudioResampler | None) -> Iterator[Samples]:
    """What a resampler still holds; nothing, if it has refused its frames."""
    import av

    try:
        yield from _samples(resampler, None)
    except av.error.FFmpegError as error:
        log.warning("the end of the sound cannot be read", reason=str(error))


def _silence(seconds: float) -> Iterator[Samples]:
    samples = round(seconds * RATE)
    return (np.zeros(min(RATE, samples - start), np.float32) for start in range(0, samples, RATE))
