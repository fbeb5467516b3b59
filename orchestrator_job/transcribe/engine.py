"""Engines: a recording on the disk in, segments with times out.

`faster-whisper` runs Whisper on CTranslate2 and reads audio by PyAV; its model is a directory (a mounted volume), never
a name that would be looked up at a hub. `scripted` hears nothing: it measures the recording and says so, for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from contracts.api import meeting
from orchestrator_job.transcribe import sound, voice
from orchestrator_job.transcribe.errors import Unusable

log = structlog.get_logger("transcribe")

SECONDS = 5
"""Of a segment of the scripted engine."""
FILES = ("model.bin", "config.json", "tokenizer.json")
"""What the directory of a model holds, beside one of `VOCABULARIES`."""
VOCABULARIES = ("vocabulary.json", "vocabulary.txt")
DETECTION = 4
"""Of 30 seconds each: how much speech is heard at most to find its language."""


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
    """Whisper from the directory `model`, behind the voice filter; loaded before a recording is asked for.

    Raises `Unusable`.
    """
    # Nothing is looked up at a hub: what would be is asked for here, and the Job sets HF_HUB_OFFLINE.
    folder = Path(model)
    absent = [name for name in FILES if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in VOCABULARIES):
        absent.append(" or ".join(VOCABULARIES))
    if absent:
        raise Unusable(
            f"{model!r} is no model: it has no {' and no '.join(absent)}.",
            field="model",
            remedy="Mount a Whisper model in CTranslate2's format and name its directory: docs/meetings.md.",
        )
    try:
        import ctranslate2
        import faster_whisper
    except ImportError as error:
        raise Unusable(
            f"faster-whisper is not in the image: {error}",
            field="engine",
            remedy="Build the image with the extra `transcription`: docs/meetings.md.",
        ) from error
    # On a GPU the model's own type, float16 for most; 8 bits cost a CPU less (docs/benchmarks.md).
    device, kind = ("cuda", "default") if ctranslate2.get_cuda_device_count() else ("cpu", "int8")
    try:
        loaded = faster_whisper.WhisperModel(
            model, device=device, compute_type=kind, cpu_threads=threads, local_files_only=True
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise Unusable(f"The model {model!r} cannot be loaded: {error}", field="model") from error

    def transcribe(recording: Path, language: str) -> meeting.Transcript:
        heard = total = 0
        segments: list[meeting.Segment] = []

        def counted() -> Iterator[sound.Samples]:
            nonlocal total
            for piece in sound.pieces(recording):
                total += len(piece)
                yield piece

        for excerpt in voice.excerpts(voice.stretches(counted(), voice.silero)):
            joined = excerpt.joined()
            heard += len(joined)
            try:
                found, told = loaded.transcribe(
                    joined,
                    language=language or None,
                    language_detection_segments=DETECTION,
                    # What was misheard once is not told to the model as what was said before.
                    condition_on_previous_text=False,
                    word_timestamps=True,
                )
                # The model is asked while this is read.
                pieces = list(found)
            except ValueError as error:
                raise Unusable(
                    f"The model does not take sound as it is prepared for it: {error}",
                    field="model",
                    remedy="Check that preprocessor_config.json is that of the model: docs/meetings.md.",
                ) from error
            language = told.language
            words = (
                [(word.start, word.end, word.word) for word in piece.words or ()]
                or [(piece.start, piece.end, piece.text)]
                for piece in pieces
            )
            for start, end, text in excerpt.segments(words):
                segments.append(meeting.Segment(start=start, end=end, text=text.strip()[:20_000]))
            if len(segments) >= meeting.MOST_SEGMENTS:
                log.warning("the transcript is cut", segments=meeting.MOST_SEGMENTS)
                break
        log.info("speech is found", seconds=total / sound.RATE, speech=heard / sound.RATE)
        return meeting.Transcript(
            engine="faster-whisper",
            model=folder.name,
            language=language,
            duration_seconds=total / sound.RATE,
            segments=tuple(segments[: meeting.MOST_SEGMENTS]),
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
