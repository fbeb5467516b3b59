"""The demonstration's own logic: settings, images, and whether it tells the truth about how tasks ended."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from crds import API_VERSION, pendingtask
from crds.phases import Phase
from hack.cluster import layout
from hack.demo import errors, expectation, images, plugin, release, settings, stream
from hack.demo.kubectl import Kubectl
from tests import waiting


def task(name: str, **status: Any) -> pendingtask.PendingTask:
    return pendingtask.PendingTask.model_validate(
        {
            "apiVersion": API_VERSION,
            "kind": "PendingTask",
            "metadata": {"name": name, "uid": name},
            "spec": {"type": "UserTask", "clientId": "a", "content": "x"},
            "status": status,
        }
    )


def expects(*phases: Phase) -> expectation.Expectation:
    return expectation.Expectation("t", "", frozenset(phases))


@pytest.mark.parametrize(
    ("status", "settled", "met"),
    [
        ({}, False, False),
        ({"phase": "Orchestrating"}, False, False),
        ({"phase": "Done"}, True, True),
        ({"phase": "Completed"}, True, False),
        ({"phase": "UserTask"}, True, False),
        ({"phase": "Scheduled"}, True, False),
        ({"phase": "Error"}, True, False),
    ],
)
def test_a_task_that_has_to_be_done(status: dict[str, Any], settled: bool, met: bool) -> None:
    assert expects(Phase.DONE).settled(task("t", **status)) is settled
    assert expects(Phase.DONE).met(task("t", **status)) is met


def test_a_missing_task_is_not_as_expected() -> None:
    (verdict,) = expectation.judge([expects(Phase.DONE)], {})
    assert (verdict.ok, verdict.actual) == (False, "missing")


def test_a_real_model_may_decide_otherwise_but_not_fail() -> None:
    (wanted,) = expectation.relaxed([expects(Phase.DONE)])
    assert wanted.met(task("t", phase="Completed"))
    assert wanted.met(task("t", phase="UserTask", userTask={"kind": "Question"}))
    assert not wanted.met(task("t", phase="Error"))
    failed = task("t", phase="UserTask", userTask={"kind": "Failure"}, result={"exitReason": "InvalidOutput"})
    assert wanted.settled(failed)
    assert not wanted.met(failed)


def test_those_that_came_to_their_own_end_are_counted() -> None:
    phases = ("Completed", "Done", "Scheduled", "UserTask", "Error", "Orchestrating")
    assert expectation.finished(task("t", phase=phase) for phase in phases) == 2


def test_the_reason_is_what_is_waited_for() -> None:
    waiting = task("t", phase="ReadyForQualification", retry={"count": 2, "reason": "the knowledge base is away"})
    assert expectation.reason(waiting) == "the knowledge base is away"
    asked = task("t", phase="UserTask", userTask={"kind": "Question", "questions": [{"id": "1", "text": "Which?"}]})
    assert expectation.reason(asked) == "Which?"


def test_settings_of_the_local_cluster() -> None:
    found = settings.read({})
    place = layout.read({})
    assert found.local
    assert found.simulated
    assert found.kubeconfig == str(place.kubeconfig)
    # What `python -m hack.demo env` exported is our own cluster too.
    assert settings.read({"KUBECONFIG": str(place.directory / "jervis.kubeconfig")}).local


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"OLLAMA_URL": "gpu-0:11434"}, "OLLAMA_URL"),
        ({"OLLAMA_MODEL": "qwen3:8b"}, "OLLAMA_URL"),
        ({"WEAVIATE_GRPC_PORT": "many"}, "WEAVIATE_GRPC_PORT"),
        ({"DEMO_TIMEOUT": "0"}, "DEMO_TIMEOUT"),
        ({"MODEL": "large"}, "MODEL='large': give small"),
        ({"MODEL": "small", "OLLAMA_URL": "http://gpu:11434"}, "MODEL and OLLAMA_URL are both set"),
        ({"MODEL": "small", "KUBECONFIG": "/elsewhere/config"}, "unset KUBECONFIG"),
    ],
)
def test_wrong_settings_name_the_variable(environment: dict[str, str], words: str) -> None:
    with pytest.raises(errors.Failure, match=words):
        settings.read(environment)


def test_a_cluster_of_yours_needs_named_images() -> None:
    yours = {"KUBECONFIG": "/elsewhere/config"}
    with pytest.raises(errors.Failure, match="IMAGE is not set"):
        images.chosen(settings.read(yours))
    with pytest.raises(errors.Failure, match="FAKES_IMAGE is not set"):
        images.chosen(settings.read({**yours, "IMAGE": "r/jervis:1"}))
    named = settings.read({**yours, "IMAGE": "r/jervis:1", "OLLAMA_URL": "http://gpu:11434"})
    assert images.chosen(named)[0] == "r/jervis:1"


@pytest.mark.parametrize(
    ("image", "repository", "tag", "digest"),
    [
        ("jervis:dev", "jervis", "dev", ""),
        ("host:5000/team/jervis", "host:5000/team/jervis", "latest", ""),
        ("host:5000/team/jervis:1.2", "host:5000/team/jervis", "1.2", ""),
        ("host/jervis@sha256:ab", "host/jervis", "", "sha256:ab"),
    ],
)
def test_image_names(image: str, repository: str, tag: str, digest: str) -> None:
    assert images.split(image) == {"repository": repository, "tag": tag, "digest": digest}


def test_values_are_merged_as_helm_does() -> None:
    below = {"operator": {"settings": {"team": ["a"], "idleSeconds": 3}}, "models": {}}
    above = {"operator": {"settings": {"idleSeconds": 1}}, "gpuBackends": [{"name": "b"}]}
    assert release.overlaid(below, above) == {
        "operator": {"settings": {"team": ["a"], "idleSeconds": 1}},
        "models": {},
        "gpuBackends": [{"name": "b"}],
    }
    assert below["operator"] == {"settings": {"team": ["a"], "idleSeconds": 3}}


def test_a_watch_that_ends_is_begun_anew(tmp_path: Path) -> None:
    """A kubectl that shows one state per call, cut in the middle of a letter, and then ends."""
    states = [task("t", phase=phase).wire() for phase in ("Qualifying", "Done")]
    states[0]["spec"]["content"] = "á"
    (tmp_path / "states.json").write_text(json.dumps(states))
    program = tmp_path / "kubectl"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib, sys, time\n"
        "here = pathlib.Path(__file__).parent\n"
        "states = json.loads((here / 'states.json').read_text())\n"
        "first, *rest = states\n"
        "(here / 'states.json').write_text(json.dumps(rest or states))\n"
        "raw = json.dumps(first, ensure_ascii=False, indent=1).encode()\n"
        "middle = raw.find('á'.encode()) + 1\n"
        "for piece in (raw[:middle], raw[middle:]):\n"
        "    sys.stdout.buffer.write(piece)\n"
        "    sys.stdout.buffer.flush()\n"
        "    time.sleep(0.1)\n"
    )
    program.chmod(0o755)
    cluster = Kubectl(program, "", "default")
    seen = []
    for found in stream.tasks(cluster, "a=b", time.monotonic() + waiting.PATIENCE):
        if found is not None:
            seen.append(found)
        if seen and seen[-1].status.phase == Phase.DONE:
            break
    assert [found.status.phase for found in seen] == [Phase.QUALIFYING, Phase.DONE]
    assert seen[0].spec.content == "á"


def test_the_command_says_what_is_wrong_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hack.demo", "up"],
        cwd=layout.CHECKOUT,
        env={"PATH": "/usr/bin:/bin", "OLLAMA_URL": "nonsense"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: OLLAMA_URL='nonsense'")
    assert "Traceback" not in done.stderr


def test_the_checkout_brings_kubectl_jervis(tmp_path: Path) -> None:
    wanted = settings.Settings("", True, Path(__file__).resolve().parents[2], tmp_path / "it's here")
    folder = plugin.write(wanted)
    program = Path(folder) / plugin.NAME
    done = subprocess.run([program, "queue", "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "--all-namespaces" in done.stdout) == (0, True), done.stderr
    assert plugin.write(wanted) == folder, "again is as good"
