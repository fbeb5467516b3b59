"""The engine with a model of random weights on real sound: it loads and gives times; its words mean nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import av
import pytest

from hack import voice
from orchestrator_job.transcribe import engine
from orchestrator_job.transcribe.errors import Unusable
from orchestrator_job.transcribe.sound import RATE
from orchestrator_job.transcribe.voice import PADDING
from tests import needs
from tests.orchestrator_job.transcribe import tinymodel


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tinymodel.write(tmp_path_factory.mktemp("model"))


def copied(model: Path, folder: Path, *names: str) -> None:
    """These files of the model."""
    for name in names:
        (folder / name).write_bytes((model / name).read_bytes())


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence that espeak-ng says."""
    path = tmp_path_factory.mktemp("sound") / "spoken.wav"
    words = "The backup of the node gpu three failed today."
    needs.packages("espeak-ng")
    subprocess.run(["espeak-ng", "-w", str(path), words], check=True)  # a program of the tests
    return path


def test_a_recording_becomes_segments_with_times(model: Path, spoken: Path) -> None:
    run = engine.whisper(str(model), 1)
    told = run(spoken, "en")
    assert (told.engine, told.model, told.language, told.simulated) == ("faster-whisper", model.name, "en", False)
    assert 1 < told.duration_seconds < 10
    assert told.segments
    assert all(one.end >= one.start for one in told.segments)
    assert run(spoken, "").language in ("en", "de", "cs")


def test_times_are_those_of_the_recording_and_not_of_the_speech_in_it(
    model: Path, spoken: Path, tmp_path: Path
) -> None:
    rate, samples = voice.read(spoken)
    path = tmp_path / "pauses.wav"
    voice.write(path, rate, [voice.silence(20, rate), samples, voice.silence(70, rate), samples])
    said = engine.whisper(str(model), 1)(path, "en")
    length, padding = len(samples) / rate, PADDING / RATE
    starts = (20, 20 + length + 70)
    assert said.duration_seconds == pytest.approx(starts[1] + length, abs=0.1)
    assert said.segments
    for one in said.segments:
        inside = [start - padding <= one.start <= one.end <= start + length + padding for start in starts]
        assert inside.count(True) == 1, one


def test_compressed_sound_is_read(model: Path, spoken: Path, tmp_path: Path) -> None:

    path = tmp_path / "spoken.ogg"
    with av.open(str(spoken)) as source, av.open(str(path), "w") as target:
        stream = target.add_stream("libopus", rate=48000, layout="mono")
        resampler = av.AudioResampler(format="s16", layout="mono", rate=48000)
        for frame in source.decode(audio=0):
            for each in resampler.resample(frame):
                target.mux(stream.encode(each))
        for each in resampler.resample(None):
            target.mux(stream.encode(each))
        target.mux(stream.encode(None))
    assert path.read_bytes()[:4] == b"OggS"
    said, plain = engine.whisper(str(model), 1)(path, "en"), engine.scripted(spoken, "")
    assert abs(said.duration_seconds - plain.duration_seconds) < 0.2


@pytest.mark.parametrize("body", [b"", b"RIFF\xff\xff\xff\xffWAVEfmt ", b"OggS" + b"\0" * 500, b"no sound at all"])
def test_what_cannot_be_decoded_is_said_to_be_so(model: Path, tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "broken"
    path.write_bytes(body)
    with pytest.raises(Unusable) as caught:
        engine.whisper(str(model), 1)(path, "en")
    assert caught.value.field == "audio"


def test_a_model_is_never_looked_up(model: Path, tmp_path: Path) -> None:
    for name in ("large-v3", str(tmp_path)):
        with pytest.raises(Unusable) as caught:
            engine.whisper(name, 1)
        assert caught.value.field == "model"
    copied(model, tmp_path, "model.bin", "config.json")
    with pytest.raises(Unusable, match=r"no tokenizer\.json and no vocabulary\.json or vocabulary\.txt\."):
        engine.whisper(str(tmp_path), 1)
    copied(model, tmp_path, "tokenizer.json", "vocabulary.json")
    (tmp_path / "model.bin").write_bytes(b"no weights")
    with pytest.raises(Unusable, match="cannot be loaded"):
        engine.whisper(str(tmp_path), 1)


def test_a_vocabulary_of_lines_is_enough(model: Path, spoken: Path, tmp_path: Path) -> None:
    """Models converted by older versions have one, and no preprocessor_config.json."""
    copied(model, tmp_path, "model.bin", "config.json", "tokenizer.json")
    words = json.loads((model / "vocabulary.json").read_text())
    (tmp_path / "vocabulary.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    assert engine.whisper(str(tmp_path), 1)(spoken, "en").segments


def test_a_model_whose_features_do_not_fit_is_named(model: Path, spoken: Path, tmp_path: Path) -> None:
    copied(model, tmp_path, "model.bin", "config.json", "tokenizer.json", "vocabulary.json")
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"feature_size": 2 * tinymodel.MELS}))
    for language in ("en", ""):
        with pytest.raises(Unusable, match="Invalid input features") as caught:
            engine.whisper(str(tmp_path), 1)(spoken, language)
        assert caught.value.field == "model"


def test_a_recording_without_speech_has_no_words(model: Path, tmp_path: Path) -> None:
    for name, sound in (("silence", voice.silence(90, 8000)), ("noise", voice.noise(90, 8000))):
        voice.write(tmp_path / name, 8000, [sound])
        transcript = engine.whisper(str(model), 1)(tmp_path / name, "")
        assert (transcript.segments, transcript.language, transcript.duration_seconds) == ((), "", 90), name


def test_an_engine_has_a_name() -> None:
    assert engine.named("scripted", "", 0) is engine.scripted
    with pytest.raises(Unusable):
        engine.named("whisperx", "", 0)
