"""The sound of a recording in pieces, so that hours of it are never in memory at once.

A piece is a block of mono float32 samples between -1 and 1, `RATE` a second, in the order of the recording; it is as
long as a packet of the file. Packets that are damaged are left out, as players do.
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


def pieces(recording: Path) -> Iterator[Samples]:
    """The first track of sound. Raises `Unusable` where nothing of it can be decoded."""
    import av

    decoded = damaged = 0
    shape: tuple[str, str, int] | None = None
    resampler: av.AudioResampler | None = None
    try:
        with av.open(str(recording), metadata_errors="ignore") as container:
            if not container.streams.audio:
                raise Unusable("The recording cannot be decoded: it has no sound.", field="audio")
            for packet in container.demux(container.streams.audio[0]):
                try:
                    frames = packet.decode()
                except av.error.InvalidDataError:
                    damaged += 1
                    continue
                for frame in frames:
                    decoded += frame.samples
                    if (frame.format.name, frame.layout.name, frame.sample_rate) != shape:
                        # Another rate or layout in the middle, as streams have it, is another resampler.
                        yield from _rest(resampler)
                        shape = (frame.format.name, frame.layout.name, frame.sample_rate)
                        resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
                    # The order counts, not the clock: a jump in it is no error.
                    frame.pts = None
                    yield from _samples(resampler, frame)
    except (av.error.FFmpegError, ValueError) as error:
        if not decoded:
            raise Unusable(f"The recording cannot be decoded: {error}", field="audio") from error
        log.warning("the recording ends early", seconds=decoded / (shape[2] if shape else RATE), reason=str(error))
    yield from _rest(resampler)
    if damaged and not decoded:
        raise Unusable(f"The recording cannot be decoded: all {damaged} packets are damaged.", field="audio")
    if damaged:
        log.warning("packets are damaged", packets=damaged)


def _samples(resampler: av.AudioResampler | None, frame: av.AudioFrame | None) -> Iterator[Samples]:
    for resampled in resampler.resample(frame) if resampler else ():
        yield resampled.to_ndarray()[0].astype(np.float32) / 32768


def _rest(resampler: av.AudioResampler | None) -> Iterator[Samples]:
    """What a resampler still holds."""
    return _samples(resampler, None)
