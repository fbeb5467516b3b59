"""The sound of a recording in pieces: their length, damaged packets, and recordings that change in the middle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hack import voice
from orchestrator_job.transcribe import sound
from orchestrator_job.transcribe.errors import Unusable


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
def test_any_rate_becomes_sixteen_thousand_samples_a_second_in_small_pieces(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "recording.wav"
    voice.write(path, rate, [voice.noise(30, rate), voice.silence(30, rate)])
    pieces = list(sound.pieces(path))
    assert sum(map(len, pieces)) == pytest.approx(60 * sound.RATE, abs=100)
    assert max(map(len, pieces)) <= sound.RATE
    assert {piece.dtype for piece in pieces} == {np.dtype(np.float32)}
    assert 0.005 < float(np.concatenate(pieces)[: 20 * sound.RATE].std()) < 0.02


def test_a_recording_that_breaks_off_is_heard_until_there(tmp_path: Path) -> None:
    path = tmp_path / "recording.wav"
    voice.write(path, 8_000, [voice.noise(30, 8_000)])
    path.write_bytes(path.read_bytes()[:200_001])
    assert sum(map(len, sound.pieces(path))) == pytest.approx(12.5 * sound.RATE, rel=0.01)


def test_damaged_packets_are_left_out(tmp_path: Path) -> None:
    import av

    path = tmp_path / "recording.flac"
    with av.open(str(path), "w") as target:
        stream = target.add_stream("flac", rate=16_000, layout="mono")
        for number in range(20):
            samples = voice.noise(1, 16_000, loudness=3000, seed=number).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
            frame.sample_rate = 16_000
            target.mux(stream.encode(frame))
        target.mux(stream.encode(None))
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 3000] = b"\0" * 3000
    path.write_bytes(content)
    assert 15 * sound.RATE < sum(map(len, sound.pieces(path))) < 20 * sound.RATE


def test_a_recording_without_a_track_of_sound_is_unusable(tmp_path: Path) -> None:
    import av

    path = tmp_path / "picture.mp4"
    with av.open(str(path), "w") as target:
        stream = target.add_stream("mpeg4", rate=1)
        stream.width = stream.height = 16
        target.mux(stream.encode(av.VideoFrame(16, 16, "yuv420p")))
        target.mux(stream.encode(None))
    with pytest.raises(Unusable, match="no sound"):
        list(sound.pieces(path))
