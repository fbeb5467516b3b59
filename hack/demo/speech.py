"""`make demo MODEL=small`: a recording that espeak-ng speaks is uploaded, transcribed by a real Whisper in a Job, and
becomes a task.

The model lies in a volume of this machine, since no pod of the demonstration's namespace may mount a path of it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from contracts.api import meeting
from crds import API_VERSION, labels
from hack import voice, whisper
from hack.cluster import progress
from hack.demo import errors, expectation, forward, plugin, settings, watch
from hack.demo.kubectl import Kubectl
from hack.image import build

WORDS = "The failover of the router is tested on Wednesday. Please renew the certificate of the registry before Friday."
_NAME, _CLAIM, _TOKENS = "demo-meetings", "demo-whisper", "demo-sources-tokens"
_SERVICE, _PORT = f"{settings.RELEASE}-sources", 8080
_PAUSE = 2.0


def values() -> dict[str, Any]:
    """Values of the release."""
    return {
        "sources": {"tokens": {"existingSecret": {"name": _TOKENS, "key": "tokens.yaml"}}},
        "transcription": {
            "engine": "faster-whisper",
            "image": build.IMAGES["transcription"],
            "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
            "volumes": [{"name": "model", "persistentVolumeClaim": {"claimName": _CLAIM, "readOnly": True}}],
            "volumeMounts": [{"name": "model", "mountPath": "/models/whisper", "readOnly": True}],
        },
    }


def prepare(cluster: Kubectl, wanted: settings.Settings, report: progress.Progress) -> None:
    """Apply what `values` names."""
    cluster.apply(manifests(token(wanted), whisper.folder(report)))


def manifests(secret: str, model: Path) -> list[dict[str, Any]]:
    """The file of tokens with that of who uploads, and the volume with the model of the folder `model`."""
    digest = hashlib.sha256(secret.encode()).hexdigest()
    grant = {"name": "demo", "sha256": digest, "write": True, "scopes": [{"clientId": settings.CLIENT}]}
    tokens = {"tokens.yaml": json.dumps({"tokens": [grant]})}
    size = {"storage": "1Gi"}
    shared = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    volume = {"capacity": size, **shared, "hostPath": {"path": str(model), "type": "Directory"}}
    claim = {"volumeName": _CLAIM, **shared, "resources": {"requests": size}}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _TOKENS}, "stringData": tokens},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": _CLAIM}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": _CLAIM}, "spec": claim},
    ]


def remove(cluster: Kubectl) -> None:
    """Delete the volume, which no namespace takes with it."""
    cluster.run("delete", "persistentvolume", _CLAIM, "--ignore-not-found")


def token(wanted: settings.Settings) -> str:
    """Of who uploads: the same for every run with this checkout, as the pod's copy of the Secret would be old for a
    minute otherwise."""
    file = wanted.state / "sources-token"
    if not file.exists():
        file.touch(0o600)
        file.write_text(secrets.token_urlsafe(32))
    return file.read_text()


def show(console: Console, cluster: Kubectl, wanted: settings.Settings, run: str) -> dict[str, list[str]]:
    """Upload, wait, and print what was said and what was heard. Returns {sourceUrn: names of its tasks}.

    Raises errors.Failure when the recording is not transcribed or its task does not end well.
    """
    console.print("\n[bold]a recording of a meeting[/] (1 task)")
    console.print(f"  said by espeak-ng: {WORDS}", markup=False, soft_wrap=True)
    spec = {
        "type": "Meeting",
        "clientId": settings.CLIENT,
        "projectId": settings.PROJECT,
        "url": "https://meetings.example.com/api",
        "pollInterval": "10s",
    }
    metadata = {"name": _NAME, "labels": {settings.LABEL: "true"}}
    cluster.apply([{"apiVersion": API_VERSION, "kind": "Connection", "metadata": metadata, "spec": spec}])
    with tempfile.TemporaryDirectory() as folder, forward.opened(cluster, _SERVICE, _PORT) as url:
        recording = voice.spoken(Path(folder) / "router.wav", WORDS)
        access = ("--sources", url, "--token", token(wanted))
        upload = ("meeting", "upload", str(recording), "--connection", _NAME, "--title", f"Router {run}")
        sent = json.loads(plugin.run(cluster, *upload, *access, "--output=json"))
        uploaded = _indexed(cluster, wanted, sent["id"], access)
        for segment in _transcript(url, uploaded.id, wanted).transcript.segments:
            heard = f"  heard by Whisper:  {segment.text} ({segment.start:.1f} s to {segment.end:.1f} s)"
            console.print(heard, markup=False, soft_wrap=True)
    task = cluster.task(uploaded.task)
    own = expectation.Expectation(uploaded.task, "the meeting", frozenset())
    seen = watch.shown(
        console,
        cluster,
        f"{labels.CONNECTION_UID}={task.metadata.labels[labels.CONNECTION_UID]}",
        expectation.relaxed([own]),
        wanted.timeout,
    )
    return {seen[uploaded.task].spec.source_urn or "": [uploaded.task]}


def _indexed(cluster: Kubectl, wanted: settings.Settings, meeting_id: str, access: Sequence[str]) -> meeting.Meeting:
    """The meeting, once it has a task."""
    deadline = time.monotonic() + wanted.timeout
    while True:
        listed = json.loads(plugin.run(cluster, "meetings", "--connection", _NAME, *access, "--output=json"))
        [found] = [meeting.Meeting.model_validate(each) for each in listed["items"] if each["id"] == meeting_id]
        if found.state is meeting.State.INDEXED and found.task:
            return found
        if found.state is meeting.State.FAILED or time.monotonic() > deadline:
            raise errors.Failure(f"the recording is {found.state.value}: {found.reason or 'still waited for'}")
        time.sleep(_PAUSE)


def _transcript(url: str, meeting_id: str, wanted: settings.Settings) -> meeting.Told:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    direct.addheaders = [("Authorization", f"Bearer {token(wanted)}")]
    with direct.open(f"{url}/api/v1/meetings/{meeting_id}/transcript", timeout=30) as answer:
        return meeting.Told.model_validate_json(answer.read())
