"""Engines: a recording on the disk in, segments with times out.

`faster-whisper` runs Whisper on CTranslate2 and reads audio by PyAV; its model is a directory (a mounted volume), never
a name that would be looked up at a hub. `scripted` hears nothing: it measures the recording and says so, for tests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from crds import errors, meeting

log = structlog.get_logger("transcribe")

SECONDS = 5
"""Of a segment of the scripted engine."""


class Unusable(errors.Permanent):
    """The recording, the model or the engine cannot be used; another try would end the same way."""


Engine = Callable[[Path, str], meeting.Transcript]
"""(recording, language or "") -> transcript. Raises `Unusable`."""


def named(name: str, model: str, threads: int) -> Engine:
    """The engine of that name; `model` is a directory. Raises `Unusable`."""
    if name == "scripted":
        return scripted
    if name == "faster-whisper":
        return whisper(model, threads)
    raise Unusable(f"There is no engine {name!r}.", field="engine", remedy="faster-whisper or scripted.")


def scripted(recording: Path, _: str) -> meeting.Transcript:
    """Says of every five seconds that they were not heard. The length is the recording's, by its container."""
    seconds = _seconds(recording)
    segments = [
        meeting.Segment(
            start=start,
            end=min(start + SECONDS, seconds),
            text=f"Scripted segment {start // SECONDS + 1}: no words were recognized.",
        )
        for start in range(0, max(1, int(seconds)), SECONDS)
    ]
    return meeting.Transcript(
        engine="scripted", duration_seconds=seconds, simulated=True, segments=tuple(segments[: meeting.MOST_SEGMENTS])
    )


def whisper(model: str, threads: int) -> Engine:
    """Whisper from the directory `model`; loaded before a recording is asked for. Raises `Unusable`."""
    # Nothing is looked up at a hub: what would be is asked for here, and the Job sets HF_HUB_OFFLINE.
    absent = [name for name in ("model.bin", "tokenizer.json") if not (Path(model) / name).is_file()]
    if absent:
        raise Unusable(
            f"{model!r} is no model: it has no {' and no '.join(absent)}.",
            field="model",
            remedy="Mount a Whisper model in CTranslate2's format and name its directory: docs/meetings.md.",
        )
    try:
        import faster_whisper
    except ImportError as error:
        raise Unusable(
            f"faster-whisper is not in the image: {error}",
            field="engine",
            remedy="Build the image with the extra `transcription`: docs/meetings.md.",
        ) from error
    try:
        loaded = faster_whisper.WhisperModel(
            model, device="auto", compute_type="default", cpu_threads=threads, local_files_only=True
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise Unusable(f"The model {model!r} cannot be loaded: {error}", field="model") from error

    def transcribe(recording: Path, language: str) -> meeting.Transcript:
        import av

        try:
            # IndexError: a container without sound.
            heard = faster_whisper.decode_audio(str(recording))
        except (av.error.FFmpegError, ValueError, IndexError) as error:
            raise Unusable(f"The recording cannot be decoded: {error}", field="audio") from error
        try:
            pieces, said = loaded.transcribe(heard, language=language or None, vad_filter=False)
        except ValueError as error:
            raise Unusable(f"The model does not take the recording: {error}", field="audio") from error
        segments: list[meeting.Segment] = []
        for piece in pieces:
            if len(segments) == meeting.MOST_SEGMENTS:
                log.warning("the transcript is cut", segments=len(segments))
                break
            start = max(0.0, piece.start)
            segments.append(meeting.Segment(start=start, end=max(start, piece.end), text=piece.text.strip()[:20_000]))
        return meeting.Transcript(
            engine="faster-whisper",
            model=Path(model).name,
            language=said.language,
            duration_seconds=said.duration,
            segments=tuple(segments),
        )

    return transcribe


def _seconds(recording: Path) -> float:
    """The length that the container says, of a WAV without any library, else by PyAV if that is there."""
    import wave

    try:
        with wave.open(str(recording)) as opened:
            return float(opened.getnframes() / opened.getframerate())
    except (wave.Error, EOFError, ZeroDivisionError):
        pass
    try:
        import av

        with av.open(str(recording)) as container:
            seconds: float = (container.duration or 0) / av.time_base
            return seconds
    except ImportError:
        return 0.0
    except av.error.FFmpegError as error:
        raise Unusable(f"The recording cannot be decoded: {error}", field="audio") from error
