"""A real Whisper (base) on recordings whose words and times are known: JERVIS_TEST_WHISPER names its folder.

`make test-speech` fetches it. The figures stand in docs/meetings.md; bench/speech has the processor time.
"""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faster_whisper
import numpy as np
import pytest

from contracts.api import meeting
from hack import voice
from hack.cluster import progress
from orchestrator_job.transcribe import engine, sound
from tests import needs
from tests.transcription import recordings

MODEL = os.environ.get("JERVIS_TEST_WHISPER", "")
pytestmark = pytest.mark.skipif(not MODEL, reason="a real Whisper: see make test-speech")
RATE = 8_000
WINDOW = 30
"""Seconds that Whisper hears at once; without the voice filter it hears each such window of a recording."""


class Counted(faster_whisper.WhisperModel):  # type: ignore[misc]  # the library has no types
    """Whisper that counts the windows that it hears."""

    heard = 0

    def encode(self, features: Any) -> Any:
        """As the library does."""
        Counted.heard += 1
        return super().encode(features)


@dataclass(frozen=True)
class Heard:
    """What was said in a recording, its transcript, and the windows that this took."""

    said: list[voice.Said]
    transcript: meeting.Transcript
    windows: int


@pytest.fixture(scope="module")
def run() -> Iterator[engine.Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faster_whisper, "WhisperModel", Counted)
        needs.packages("espeak-ng")
        yield engine.whisper(MODEL, 1)


@pytest.fixture(scope="module")
def recorded(run: engine.Engine, tmp_path_factory: pytest.TempPathFactory) -> Heard:
    """The recorded voice after seven minutes of noise, with pauses of 45 seconds. How many windows its speech takes
    depends on the processor, by one or two: the model's times say where the next one begins."""
    path = tmp_path_factory.mktemp("sound") / "recorded.wav"
    utterances = voice.recorded(progress.Progress())
    parts: list[voice.Utterance | voice.Samples] = [voice.noise(420, RATE)]
    for number, utterance in enumerate(utterances):
        if number % 9 == 0:
            parts.append(voice.silence(45, RATE))
        parts.extend((utterance, voice.silence(0.5, RATE)))
    said = voice.write(path, RATE, parts)
    before = Counted.heard
    return Heard(said, run(path, ""), Counted.heard - before)


def test_words_of_a_recorded_voice_are_right(recorded: Heard) -> None:
    assert recorded.transcript.language == "en"
    assert recordings.error_rate(recorded.said, recorded.transcript) <= 0.05


def test_times_are_right_beside_noise_and_pauses(recorded: Heard) -> None:
    assert len(recordings.blocks(recorded.said, 3)) >= 5
    assert recordings.misplaced(recorded.said, recorded.transcript) == []


def test_no_segment_reaches_over_a_pause(recorded: Heard) -> None:
    assert max(each.end - each.start for each in recorded.transcript.segments) < WINDOW


def test_only_speech_costs_windows(recorded: Heard) -> None:
    speech = sum(end - start for start, end in recordings.blocks(recorded.said, 3))
    assert recorded.windows <= 1.5 * speech / WINDOW
    assert recorded.windows * 2 < recorded.transcript.duration_seconds / WINDOW


def hum(seconds: float) -> voice.Samples:
    """The mains and its overtone, as loud as speech is."""
    at = np.arange(round(seconds * RATE)) * 2 * np.pi / RATE
    return ((np.sin(at * 50) + np.sin(at * 100) / 2) * 2000).astype(np.int16)


def clicks(seconds: float) -> voice.Samples:
    """Five a second, as a keyboard makes them."""
    samples = voice.noise(seconds, RATE, loudness=20)
    for start in range(0, len(samples) - 80, RATE // 5):
        samples[start : start + 80] = voice.noise(0.01, RATE, loudness=6000, seed=start)[:80]
    return samples


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(lambda: [voice.silence(120, RATE)], id="silence"),
        pytest.param(lambda: [voice.noise(60, RATE, loudness=30), voice.noise(60, RATE)], id="quiet noise"),
        pytest.param(lambda: [voice.noise(120, RATE, loudness=3000)], id="loud noise"),
        pytest.param(lambda: [hum(60), voice.silence(10, RATE), hum(10)], id="hum"),
        pytest.param(lambda: [clicks(60)], id="clicks"),
    ],
)
def test_silence_and_noise_have_no_words(run: engine.Engine, tmp_path: Path, parts: Any) -> None:
    path = tmp_path / "recording.wav"
    voice.write(path, RATE, parts())
    before = Counted.heard
    assert run(path, "").segments == ()
    assert Counted.heard == before


SENTENCES = {
    "en": "Good morning everybody. The review of the contract is on Friday. Please send the minutes to the whole team.",
    "de": "Guten Morgen zusammen. Wir besprechen heute den Vertrag mit dem neuen Kunden. Die Rechnung kommt morgen.",
    "es": "Buenos días a todos. Hoy hablamos del contrato con el nuevo cliente. La factura llega mañana.",
    "it": "Il nuovo contratto è pronto. Parliamo della fattura con il cliente.",
    "pl": "Dzień dobry wszystkim. Dzisiaj rozmawiamy o umowie z nowym klientem. Faktura przyjdzie jutro.",
}
"""What espeak-ng says. Whisper base takes its Czech, Dutch and Portuguese for Latin: the voice is a machine's."""
SPOKEN = 0.35
"""Errors per word. Where this voice is hard to understand, a tenth of a second of silence more or less turns 0.2 into
0.6."""


@pytest.mark.parametrize("language", SENTENCES)
def test_languages_are_found_and_understood(run: engine.Engine, tmp_path: Path, language: str) -> None:
    """In five recordings that differ by when it begins: most of them are understood."""
    words, errors = SENTENCES[language], []
    path = voice.spoken(tmp_path / "spoken.wav", words, language=language, speed=120)
    rate, samples = voice.read(path)
    for number in range(5):
        quiet = voice.silence(5 + number * 0.13, rate)
        said = voice.write(path, rate, [quiet, voice.Utterance(words, samples), quiet])
        transcript = run(path, "")
        assert transcript.language == language
        assert recordings.misplaced(said, transcript) == []
        errors.append(recordings.error_rate(said, transcript))
    assert statistics.median(errors) <= SPOKEN, errors


HOURS = 2


def test_hours_with_little_speech_need_the_memory_and_the_windows_of_the_speech(
    run: engine.Engine, tmp_path: Path
) -> None:
    """All of it decoded would be 460 MB."""
    utterances = [each for each in voice.recorded(progress.Progress()) if len(each.words.split()) >= 12]
    path = tmp_path / "hours.wav"

    def parts() -> Iterator[voice.Utterance | voice.Samples]:
        for number in range(6):
            for minute in range(HOURS * 10):
                yield voice.noise(60, RATE, loudness=20, seed=minute)
            yield utterances[number]

    said = voice.write(path, RATE, parts())
    heard, before = Counted.heard, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    transcript = run(path, "")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert transcript.duration_seconds > HOURS * 3600
    assert recordings.error_rate(said, transcript) <= 0.05
    assert recordings.misplaced(said, transcript) == []
    assert (Counted.heard - heard) * 6 <= transcript.duration_seconds / WINDOW
    assert grown < 150
    assert max(map(len, sound.pieces(path))) <= sound.RATE
