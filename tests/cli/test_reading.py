"""`queue`, `get`, `backends` and completion against a real apiserver."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli import complete
from tests import waiting
from tests.cli import site
from tests.router import process as router

pytestmark = pytest.mark.apiserver


def test_queue(place: site.Site, call: site.Call) -> None:
    place.task("background", status={"phase": "ReadyForGpu"})
    place.task("placed", {"queuePosition": 5})
    place.task("chat", {"type": "UserInputProcessing"}, {"phase": "ReadyForQualification"})
    place.task("other", {"clientId": "globex"}, {"phase": "ReadyForGpu"})
    place.task("running", status={"phase": "Orchestrating", "dispatch": {"backend": "gpu-0"}})
    place.task("over", status={"phase": "Done"}, labels={"jervis.dev/archived": "true"})

    table = place.run("queue").succeeded()
    assert table.err.startswith("What tasks wait for is taken from their objects: Namespace")
    assert [line.split()[1] for line in table.out.splitlines()] == ["NAME", "chat", "placed", "background", "other"]

    listed = call("queue", "--client", "acme", "-o", "json").json
    assert [one["metadata"]["name"] for one in listed["items"]] == ["chat", "placed", "background"]
    assert {(one["apiVersion"], one["kind"]) for one in listed["items"]} == {("jervis.dev/v1alpha1", "PendingTask")}

    live = call("queue", "--all")
    names = [line.split()[1] for line in live.out.splitlines()[1:]]
    assert names == ["chat", "placed", "background", "other", "running"]
    assert "its run on gpu-0" in live.out
    done = call("queue", "--phase", "Done", "-o", "yaml")
    assert done.out.count("name: over\n") == 1
    everywhere = call("queue", "-A")
    mine = [line.split()[1:3] for line in everywhere.out.splitlines() if place.namespace in line.split()]
    assert mine == [[place.namespace, name] for name in ("chat", "placed", "background", "other")]


def test_get_prints_the_object_as_it_is(place: site.Site, call: site.Call) -> None:
    place.task("mail-1", status={"phase": "Qualifying", "phaseTimes": {"Qualifying": "2026-11-18T12:00:00Z"}})
    assert call("get", "mail-1", "-o", "json").json == place.get("mail-1")
    story = call("get", "mail-1").succeeded()
    assert "Qualifying   2026-11-18 12:00:00Z" in story.out
    missing = call("get", "mail-2").refused()
    assert missing.out == ""
    assert missing.err.splitlines() == [
        'Error: pendingtasks.jervis.dev "mail-2" not found.',
        "  field: NAME",
        "  remedy: Check the name and -n NAMESPACE.",
    ]


async def test_backends_with_a_router(place: site.Site, tmp_path: Path, call: site.Call) -> None:
    async def backends(*arguments: str) -> site.Done:
        return await asyncio.to_thread(call, "backends", *arguments)

    place.backend("gpu-0", {"url": "http://127.0.0.1:1", "vram": "24Gi"})
    place.backend("gpu-1", {"url": "http://127.0.0.1:2"})
    roles = json.dumps([{"role": "qualifier", "model": "qwen2.5:7b", "numCtx": 16384}])
    async with router.running(tmp_path, [router.spec("gpu-0", "http://127.0.0.1:1")], roles=roles) as running:
        table = await backends("--router", running.url)
        models = await asyncio.to_thread(call, "models", "--router", running.url)
        listed = (await backends("--router", running.url, "-o", "json")).json
    assert table.code == 0, table.err
    lines = table.out.splitlines()
    assert lines[1].endswith("no      0 (4096 per model)")
    assert lines[2].endswith("not known to the router")
    assert "Router: nothing waits." in lines
    # The server of the backend does not answer, so nothing is known of its models, and nothing is said to stop.
    assert lines[-1].startswith("qualifier (qwen2.5:7b): Unknown, no request goes to it now: ")
    assert (models.code, models.out.splitlines()) == (0, lines[-len(models.out.splitlines()) :])
    assert listed["models"]["roles"][0]["verdict"] == "Unknown"
    assert [one["metadata"]["name"] for one in listed["items"]] == ["gpu-0", "gpu-1"]
    assert listed["router"]["backends"][0]["inFlight"] == 0
    # The router is gone now: that is nobody's mistake.
    (await backends("--router", running.url)).refused("The connection to the router", code=75)
    # Who may not reach it sees the backends all the same.
    alone = (await backends()).succeeded()
    assert alone.out.splitlines()[-1].startswith("Models by role: not checked. ")


def test_completion_knows_the_tasks(place: site.Site) -> None:
    place.task("mail-1")
    place.task("mail-2")
    place.task("wiki-1")
    words = ["kubectl-jervis", "get", *place.flags(), "mail"]
    shell = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    env = {"_KUBECTL_JERVIS_COMPLETE": "complete_bash", **shell}
    done = subprocess.run(
        [sys.executable, "-m", "cli"],
        cwd=site.ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=waiting.PATIENCE,
    )
    assert done.stdout.split() == ["mail-1", "mail-2"]


def test_kubectl_s_own_completion(place: site.Site) -> None:
    place.task("mail-1")
    place.task("wiki-1")
    assert complete.lines(["get", *place.flags(), "mail"]) == ["mail-1", ":4"]
    assert complete.lines(["queue", "-o", "j"]) == ["json", ":4"]
    assert [line.split("\t")[0] for line in complete.lines(["hi"])] == ["history", ":4"]
    assert [line.split("\t")[0] for line in complete.lines(["history", "--si"])] == ["--since", ":4"]
    assert len(complete.lines([])) > 10


def test_no_way_to_a_cluster(
    place: site.Site, call: site.Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = json.loads(place.kubeconfig.read_text())
    nobody["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    away = tmp_path / "away"
    away.write_text(json.dumps(nobody))
    done = call("queue", flags=["--kubeconfig", str(away)]).refused(code=75)
    assert done.err.startswith("Error: The Kubernetes API at https://127.0.0.1:1 does not answer")
    for flags, field in (
        (["--kubeconfig", str(tmp_path / "none")], "--kubeconfig"),
        (["--kubeconfig", str(away), "--context", "nope"], "--context"),
    ):
        call("queue", flags=flags).refused(f"  field: {field}\n")


def test_the_namespace_is_the_contexts(place: site.Site, call: site.Call, tmp_path: Path) -> None:
    place.task("here")
    mine = json.loads(place.kubeconfig.read_text())
    other = {"name": "other", "context": {**mine["contexts"][0]["context"], "namespace": place.namespace}}
    mine["contexts"].append(other)
    path = tmp_path / "config"
    path.write_text(json.dumps(mine))
    call("get", "here", flags=["--kubeconfig", str(path), "--context", "other"]).succeeded()
    call("get", "here", flags=["--kubeconfig", str(path)]).refused()
    assert json.loads(path.read_text()) == mine


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert site.call(capsys, "queu").code == 2
    site.call(capsys, "submit", "file").refused("--client", code=2)
