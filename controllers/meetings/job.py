"""The Job that transcribes one meeting, and the Secret with the token of its attempt. Pure.

It lives in the release's namespace, as runs do (docs/decisions/0026): image, account and volumes are there. Where that
is the Connection's too, the Connection owns the Job. The content of the recording has no influence on the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contracts.api import meeting
from controllers import confined
from controllers.pendingtask import job as runs
from crds import labels
from kube import lease
from sources.providers.meetings.store import Row

CONTAINER = "transcribe"
_TOKEN = "/var/run/jervis"  # noqa: S105  # a mount path, no password
_SCRATCH = "/tmp"  # noqa: S108  # a mount point


@dataclass(frozen=True, slots=True)
class Template:
    """What all of these Jobs share; `run` has what they share with runs: namespace, image, account, placement.

    `url` is the sources process's. `model` is a directory in the pod, which `volumes` and `mounts` bring.
    """

    run: runs.Template
    url: str
    image: str
    engine: str
    model: str
    deadline_seconds: int
    ttl_seconds: int
    scratch: str
    """Of the volume that holds the recording while it is read."""
    resources: Mapping[str, Any] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    volumes: Sequence[Mapping[str, Any]] = ()
    mounts: Sequence[Mapping[str, Any]] = ()


def manifest(row: Row, template: Template, token: lease.FencingToken) -> dict[str, Any]:
    """The Job of the row's attempt."""
    run = template.run
    metadata = {
        "name": row["job"],
        "namespace": run.namespace,
        "labels": _labels(row),
        "annotations": {**runs.fence(token), labels.CONNECTION: row["connection"]},
        **_owner(row, run.namespace),
    }
    # The operator owns the tries.
    seconds, kept = template.deadline_seconds, template.ttl_seconds
    return confined.job(metadata, _pod(row, template), seconds, kept, replaced=True)


def secret(row: Row, template: Template, uid: str) -> dict[str, Any]:
    """The Secret with the attempt's token; the Job `uid` owns it."""
    values = {confined.TOKEN_KEY: str(row["token"])}
    return confined.secret(row["job"], uid, template.run.namespace, _labels(row), values)


def _labels(row: Row) -> dict[str, str]:
    return {
        meeting.MEETING_LABEL: row["_id"],
        "app.kubernetes.io/name": "jervis",
        "app.kubernetes.io/component": "transcribe",
    }


def _owner(row: Row, namespace: str) -> dict[str, Any]:
    if row["namespace"] != namespace or not row.get("connectionUid"):
        return {}
    of = {"apiVersion": "jervis.dev/v1alpha1", "kind": "Connection"}
    return {"ownerReferences": [{**of, "name": row["connection"], "uid": row["connectionUid"]}]}


def _pod(row: Row, template: Template) -> dict[str, Any]:
    run = template.run
    kept = ("imagePullSecrets", "priorityClassName", "runtimeClassName")
    values = {
        "URL": template.url,
        "MEETING": row["_id"],
        "LANGUAGE": row.get("language", ""),
        "ENGINE": template.engine,
        "MODEL": template.model,
        "TOKEN_FILE": f"{_TOKEN}/{confined.TOKEN_KEY}",
    }
    return {
        **{name: run.pod[name] for name in kept if name in run.pod},
        **confined.pod(run.service_account, run.run_as_user),
        **({"nodeSelector": dict(template.node_selector)} if template.node_selector else {}),
        "tolerations": [dict(one) for one in template.tolerations],
        "containers": [
            {
                **confined.container(CONTAINER, template.image, run.image_pull_policy),
                "command": ["python", "-m", "orchestrator_job.transcribe"],
                "env": [
                    # Nothing is looked up at a hub of models.
                    {"name": "HF_HUB_OFFLINE", "value": "1"},
                    *({"name": f"JERVIS_TRANSCRIBE_{name}", "value": value} for name, value in values.items()),
                ],
                "resources": dict(template.resources),
                "volumeMounts": [
                    {"name": "tmp", "mountPath": _SCRATCH},
                    {"name": "token", "mountPath": _TOKEN, "readOnly": True},
                    *map(dict, template.mounts),
                ],
            }
        ],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": template.scratch}},
            confined.volume("token", row["job"]),
            *map(dict, template.volumes),
        ],
    }
