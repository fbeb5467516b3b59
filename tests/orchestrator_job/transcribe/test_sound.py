"""The sound of a recording in pieces: their length, damaged packets, and recordings that change in the middle."""

from __future__ import annotations

import wave
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import structlog

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


@pytest.mark.parametrize(("size", "seconds"), [(3000, 19.86), (60_000, 20)])
def test_damaged_packets_are_left_out_and_many_become_silence(tmp_path: Path, size: int, seconds: float) -> None:
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
    content[middle : middle + size] = b"\0" * size
    path.write_bytes(content)
    heard = np.concatenate(list(sound.pieces(path)))
    assert len(heard) == pytest.approx(seconds * sound.RATE, abs=0.1 * sound.RATE)


def written(
    path: Path,
    codec: Literal["libopus", "aac"],
    rate: int,
    *,
    container: str = "matroska",
    jump: float = 0.0,
    odd: bytes = b"",
) -> None:
    """Ten seconds of noise. In their middle the clock jumps by `jump` seconds, and `odd` takes the place of
    a packet."""
    import av

    with av.open(str(path), "w", format=container) as target:
        stream = target.add_stream(codec, rate=rate, layout="mono")
        noise = voice.noise(10, rate, loudness=3000)
        for number, start in enumerate(range(0, 10 * rate, rate // 50)):
            frame = av.AudioFrame.from_ndarray(noise[start : start + rate // 50].reshape(1, -1), "s16", "mono")
            frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
            frame.pts = start + (round(jump * rate) if number >= 250 else 0)
            for packet in stream.encode(frame):
                if odd and number >= 250:
                    packet, whole, odd = av.Packet(odd), packet, b""
                    packet.pts, packet.dts, packet.time_base = whole.pts, whole.dts, whole.time_base
                    packet.stream = stream
                target.mux(packet)
        target.mux(stream.encode(None))


def test_a_clock_that_begins_again_is_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "recording.ogg"
    written(path, "libopus", 48_000, container="ogg")
    path.write_bytes(path.read_bytes() * 2)
    assert sum(map(len, sound.pieces(path))) == pytest.approx(20 * sound.RATE, rel=0.01)


@pytest.mark.parametrize("jump", [0.0, 7.0, 40.0])
def test_a_gap_by_the_clock_is_silence(tmp_path: Path, jump: float) -> None:
    path = tmp_path / "recording.webm"
    written(path, "libopus", 48_000, jump=jump)
    pieces = list(sound.pieces(path))
    heard = np.concatenate(pieces)
    assert len(heard) == pytest.approx((10 + jump) * sound.RATE, abs=0.1 * sound.RATE)
    assert max(map(len, pieces)) <= sound.RATE
    middle = heard[round(5.1 * sound.RATE) : round((4.9 + jump) * sound.RATE)]
    assert not middle.any()
    assert heard[-sound.RATE :].std() > 0.01


def test_a_clock_ahead_of_the_recording_s_end_is_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "recording.webm"
    written(path, "libopus", 48_000, jump=3600)
    monkeypatch.setattr(sound, "LONGEST", 30.0)
    assert sum(map(len, sound.pieces(path))) == pytest.approx(35 * sound.RATE, rel=0.01)


def test_a_packet_with_any_error_of_a_decoder_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "recording.mka"
    written(path, "aac", 16_000, odd=b"\xc1\0" + b"\x55" * 60)
    with structlog.testing.capture_logs() as logs:
        assert sum(map(len, sound.pieces(path))) == pytest.approx(10 * sound.RATE, rel=0.02)
    assert [(each["event"], each.get("packets")) for each in logs] == [("packets are damaged", 1)]


@pytest.mark.parametrize("channels", [9, 64])
def test_a_track_of_more_channels_than_can_be_joined_is_unusable(tmp_path: Path, channels: int) -> None:
    path = tmp_path / "recording.wav"
    with wave.open(str(path), "wb") as target:
        target.setnchannels(channels)
        target.setsampwidth(2)
        target.setframerate(16_000)
        target.writeframes(b"\1\0" * channels * 16_000)
    with pytest.raises(Unusable) as caught:
        list(sound.pieces(path))
    assert caught.value.field == "audio"


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
