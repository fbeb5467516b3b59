"""The image for the Jobs that transcribe: its process makes a transcript, and it holds no more than that takes."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from crds import meeting
from hack.image import build
from tests import needs
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


@contextmanager
def sources(recording: bytes) -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    """The part of the sources process that a Job asks, with one recording: its URL, and what it was sent."""
    sent: list[tuple[str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            sent.append((self.command, self.path, self.rfile.read(int(self.headers.get("Content-Length") or 0))))
            known = self.headers["Authorization"] == "Bearer secret"
            self.send_response(200 if known else 401)
            self.end_headers()
            self.wfile.write(recording if known and self.command == "GET" else b"{}")

        do_GET = do_PUT = do_POST = _answer  # noqa: N815  # the names that the library looks up

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", sent
        finally:
            server.shutdown()


def transcribe(container: Container, url: str) -> subprocess.CompletedProcess[str]:
    values = {"URL": url, "MEETING": MEETING, "TOKEN_FILE": "/run/token", "LANGUAGE": "en", "THREADS": "1"}
    settings = [f"JERVIS_TRANSCRIBE_{name}={value}" for name, value in values.items()]
    return container.run("env", "HF_HUB_OFFLINE=1", *settings, "python", "-m", "orchestrator_job.transcribe")


def test_the_process_of_a_job_makes_a_transcript(container: Container, tmp_path: Path) -> None:
    spoken = tmp_path / "spoken.wav"
    needs.packages("espeak-ng")
    subprocess.run(["espeak-ng", "-w", str(spoken), "The backup of the node failed today."], check=True)
    with sources(spoken.read_bytes()) as (url, sent):
        done = transcribe(container, url)
    assert done.returncode == 0, done.stderr
    path = f"/api/v1/meetings/{MEETING}"
    assert [one[:2] for one in sent] == [("GET", f"{path}/audio"), ("PUT", f"{path}/transcript")]
    told = meeting.Transcript.model_validate_json(sent[-1][2])
    assert (told.engine, told.model, told.language, told.simulated) == ("faster-whisper", "whisper", "en", False)
    assert told.segments
    assert 1 < told.duration_seconds < 10


def test_it_says_why_there_is_no_transcript(container: Container) -> None:
    with sources(b"no sound at all") as (url, sent):
        done = transcribe(container, url)
    assert done.returncode == 0, done.stderr
    assert [one[:2] for one in sent[1:]] == [("POST", f"/api/v1/meetings/{MEETING}/problem")]
    problem = meeting.Problem.model_validate_json(sent[-1][2])
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
