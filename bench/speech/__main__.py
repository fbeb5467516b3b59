"""Processor time and errors of a transcription, beside the settings of before, as JSON.

    python -m bench.speech                      # four minutes of noise, 45 utterances, five pauses of 45 s
    python -m bench.speech --utterances 12 --noise 60

`before` is what the engine did without the voice filter: all of the recording in one piece, in the model's own type,
conditioned on what was heard earlier.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.speech import score
from hack import voice, whisper
from hack.cluster import progress
from orchestrator_job.transcribe import engine

RATE = 8_000
Segments = list[tuple[float, float, str]]
Run = Callable[[Path, int, Path], Segments]


def scene(to: Path, utterances: int, noise: float, pause: float) -> list[voice.Said]:
    """Noise, then the recorded voice with a pause before each ninth utterance."""
    parts: list[voice.Utterance | voice.Samples] = [voice.noise(noise, RATE)]
    for number, utterance in enumerate(voice.recorded(progress.Progress())[:utterances]):
        if number % 9 == 0:
            parts.append(voice.silence(pause, RATE))
        parts.extend((utterance, voice.silence(0.5, RATE)))
    return voice.write(to, RATE, parts)


def now(model: Path, threads: int, recording: Path) -> Segments:
    """As a Job transcribes."""
    transcript = engine.whisper(str(model), threads)(recording, "")
    return [(each.start, each.end, each.text) for each in transcript.segments]


def before(model: Path, threads: int, recording: Path) -> Segments:
    """Without the voice filter."""
    import faster_whisper

    loaded = faster_whisper.WhisperModel(str(model), device="cpu", compute_type="default", cpu_threads=threads)
    pieces, _ = loaded.transcribe(faster_whisper.decode_audio(str(recording)), vad_filter=False)
    return [(each.start, each.end, each.text) for each in pieces]


def measured(run: Run, model: Path, threads: int, recording: Path, said: list[voice.Said]) -> dict[str, Any]:
    """What a run costs and says."""
    begun = time.process_time()
    segments = run(model, threads, recording)
    spent = time.process_time() - begun
    silent = [text for start, end, text in segments if not any(start < each.end and end > each.start for each in said)]
    nearest = [min((abs(each.start - start) for start, _, _ in segments), default=0) for each in said]
    return {
        "cpu_seconds": round(spent, 1),
        "word_error_rate": round(
            score.rate(" ".join(each.words for each in said), " ".join(text for _, _, text in segments)), 4
        ),
        "words_where_nobody_speaks": len(score.words(" ".join(silent))),
        "longest_segment_seconds": round(max((end - start for start, end, _ in segments), default=0), 1),
        "median_seconds_to_the_nearest_start": round(sorted(nearest)[len(nearest) // 2], 2),
        "most_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.speech", description="What a transcription costs")
    parser.add_argument("--model", type=Path, help="folder of a Whisper model; otherwise base, from PyPI")
    parser.add_argument("--utterances", type=int, default=45)
    parser.add_argument("--noise", type=float, default=240)
    parser.add_argument("--pause", type=float, default=45)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=("now", "before"))
    options = parser.parse_args()
    model = options.model or whisper.folder(progress.Progress())
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / "recording.wav"
        said = scene(recording, options.utterances, options.noise, options.pause)
        figures: dict[str, Any] = {
            "seconds": round(said[-1].end, 1),
            "words": sum(len(score.words(each.words)) for each in said),
        }
        # `now` is first: memory is the highest of the process.
        for name, run in {"now": now, "before": before}.items():
            if options.only in (None, name):
                figures[name] = measured(run, model, options.threads, recording, said)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
