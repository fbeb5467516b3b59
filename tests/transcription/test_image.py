"""The image for the Jobs that transcribe: its process makes a transcript, and it holds no more than that takes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from aiohttp import web

from contracts.api import meeting
from hack.image import build
from tests import httpserver, needs
from tests.container import Container, opened
from tests.orchestrator_job.transcribe import tinymodel

pytestmark = pytest.mark.skipif(
    not os.environ.get("JERVIS_TEST_TRANSCRIPTION"), reason="the image for transcription: see make test-thorough"
)
MEETING = "a" * 32
MOST_MB = 440
"""What the engine adds to the layers of the main image."""


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    with opened("transcription") as made:
        tinymodel.write(made.root / "models/whisper")
        (made.root / "run/token").write_text("secret")
        yield made


def sources(recording: bytes) -> AbstractContextManager[httpserver.Recorder]:
    """The part of the sources process that a Job asks, with one recording."""

    async def answer(request: web.Request) -> web.StreamResponse:
        known = request.headers.get("Authorization") == "Bearer secret"
        body = recording if known and request.method == "GET" else b"{}"
        return web.Response(status=200 if known else 401, body=body)

    return httpserver.Recorder(answer).in_thread()


def transcribe(container: Container, url: str) -> subprocess.CompletedProcess[str]:
    values = {"URL": url, "MEETING": MEETING, "TOKEN_FILE": "/run/token", "LANGUAGE": "en", "THREADS": "1"}
    settings = [f"JERVIS_TRANSCRIBE_{name}={value}" for name, value in values.items()]
    return container.run("env", "HF_HUB_OFFLINE=1", *settings, "python", "-m", "orchestrator_job.transcribe")


def test_the_process_of_a_job_makes_a_transcript(container: Container, tmp_path: Path) -> None:
    spoken = tmp_path / "spoken.wav"
    needs.packages("espeak-ng")
    subprocess.run(["espeak-ng", "-w", str(spoken), "The backup of the node failed today."], check=True)
    with sources(spoken.read_bytes()) as served:
        done = transcribe(container, served.url)
    assert done.returncode == 0, done.stderr
    path = f"/api/v1/meetings/{MEETING}"
    assert served.calls() == [
        ("GET", f"{path}/audio"),
        ("PUT", f"{path}/transcript"),
    ]
    told = meeting.Transcript.model_validate_json(served.requests[-1].body)
    assert (told.engine, told.model, told.language, told.simulated) == ("faster-whisper", "whisper", "en", False)
    assert told.segments
    assert 1 < told.duration_seconds < 10


def test_it_says_why_there_is_no_transcript(container: Container) -> None:
    with sources(b"no sound at all") as served:
        done = transcribe(container, served.url)
    assert done.returncode == 0, done.stderr
    assert served.calls()[1:] == [("POST", f"/api/v1/meetings/{MEETING}/problem")]
    problem = meeting.Problem.model_validate_json(served.requests[-1].body)
    assert problem.permanent
    assert "cannot be decoded" in problem.reason


def test_it_holds_no_more_than_that_takes(container: Container) -> None:
    assert sorted(one.name for one in (container.root / "app").iterdir()) == ["crds", "orchestrator_job"]
    for program in ("gcc", "pip", "git"):
        assert container.run("/bin/sh", "-c", f"command -v {program}").returncode != 0, program
    assert container.run("id", "-u").stdout.strip() == "10001"
    [libraries] = (container.root / "opt/jervis/lib").glob("python3*/site-packages")
    kinds = ["**/tests", "**/*.pyi", "**/*.pyx", "**/*.[ch]"]
    kinds += ["torch*", "onnxruntime/tools", "hf_xet*", "pip", "setuptools"]
    assert [str(found) for kind in kinds for found in libraries.glob(kind)] == []
    locked = (Path(build.__file__).parents[2] / "requirements/transcription.txt").read_text().count("==")
    assert len(list(libraries.glob("*.dist-info"))) == locked - 1, "all that is locked, without hf-xet"
    layers = container.store.manifest(build.IMAGES["transcription"])["layers"]
    shared = {layer["digest"] for layer in container.store.manifest(build.IMAGES["jervis"])["layers"]}
    own = [layer["size"] for layer in layers if layer["digest"] not in shared]
    assert len(layers) > len(own), "it stands on the layers of the main image"
    assert sum(own) <= MOST_MB * 1_000_000


def test_labels_say_what_it_is(container: Container) -> None:
    inspected = json.loads(container.store.buildah("inspect", container.name, quiet=True))
    assert inspected["OCIv1"]["config"]["Labels"]["org.opencontainers.image.title"] == "Jervis transcription"
