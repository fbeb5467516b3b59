"""The Job of one command, and the Secret with its token. Pure.

    fetch (token) -> command (no token) -> report (token)

The command is foreign code: tests of a repository, with what a model wrote. It has the workspace, a folder for what it
leaves, and nothing else: no token, no address of ours, an image of its own. Its pod reaches the knowledge base alone
(a NetworkPolicy), which answers nothing without a token. The original of the workspace stays where the command does
not see it, and what changed is found out by comparing with that. Nothing of the record but limits and words gets here:
the image is one of the settings, and no shell reads the words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from contracts.api.sandbox import Command
from contracts.tokens import runtoken
from controllers import confined
from controllers.pendingtask import job as runs
from crds import labels
from crds import values as quantities
from crds.pendingtask import Mode
from crds.priority import Priority
from kube import lease

FETCH, COMMAND, REPORT = "fetch", "command", "report"
"""The containers of the pod, in this order."""
AROUND_SECONDS = 600
"""Of the Job beside the command's own: for its image, for fetch and report."""
_MARGIN = timedelta(minutes=15)
_TOKEN = "/var/run/jervis"  # noqa: S105  # a mount path, no password
_WORK, _LEFT, _KEPT, _SCRATCH = "/workspace", "/left", "/kept", "/tmp"  # noqa: S108  # mount points
SCRIPT = (
    "cd /workspace || exit 0; seconds=$1; most=$2; shift 2; "
    '{ timeout -s KILL "$seconds" "$@"; echo $? >/left/exit; } </dev/null 2>&1 | tail -c "$most" >/left/output'
)


@dataclass(frozen=True, slots=True)
class Template:
    """What all of these Jobs share; `run` has what they share with runs. `images`: role -> image. A command gets no
    more than `seconds` and `memory`; `kb_url` is the knowledge base that writes."""

    run: runs.Template
    kb_url: str
    images: Mapping[str, str]
    seconds: int
    memory: str
    cpu: str
    ttl_seconds: int
    scratch: str = "4Gi"


def identity(command: Command) -> str:
    """Of the command, as a label: 32 hex digits of the SHA-256 of its record's _id."""
    return hashlib.sha256(command.id.encode()).hexdigest()[:32]


def name(command: Command) -> str:
    """Of its Job; it follows from the record, so that the apiserver refuses a second one."""
    return f"sandbox-{identity(command)}"


def refuses(command: Command, template: Template) -> str:
    """Why there will be no Job of it, as a sentence; "" if there will."""
    if command.image not in template.images:
        known = ", ".join(sorted(template.images)) or "none"
        return f"There is no image {command.image!r}; images are: {known} (sandbox.images of the chart)."
    if command.limits.seconds > template.seconds:
        return f"A command may take {template.seconds} seconds at most (sandbox.seconds of the chart)."
    if quantities.quantity_bytes(command.limits.memory) > quantities.quantity_bytes(template.memory):
        return f"A command may have {template.memory} of memory at most (sandbox.memory of the chart)."
    return ""


def manifest(command: Command, template: Template, token: lease.FencingToken) -> dict[str, Any]:
    """The Job as the leader with that `token` sends it."""
    metadata = {
        "name": name(command),
        "namespace": template.run.namespace,
        "labels": _labels(command),
        "annotations": {**runs.fence(token), labels.TASK_NAMESPACE: command.namespace},
    }
    seconds = command.limits.seconds + AROUND_SECONDS
    # A command may have written half of what it writes: nothing is run twice.
    return confined.job(metadata, _pod(command, template), seconds, template.ttl_seconds, replaced=False)


def secret(command: Command, template: Template, uid: str, signer: runtoken.Signer) -> dict[str, Any]:
    """The Secret of the Job `uid`, which owns it: a token for content of the command's scope, and for nothing
    else."""
    claims = runtoken.Run(
        task_uid=command.task_uid,
        namespace=command.namespace,
        attempt=0,
        scope=command.scope,
        mode=Mode.BACKGROUND,
        ceiling=Priority.P3,
        sandbox=True,
    )
    lifetime = timedelta(seconds=command.limits.seconds + AROUND_SECONDS) + _MARGIN
    signed = signer.sign(claims, lifetime, (runtoken.KNOWLEDGE_BASE,))
    values = {confined.TOKEN_KEY: signed}
    return confined.secret(name(command), uid, template.run.namespace, _labels(command), values)


def _labels(command: Command) -> dict[str, str]:
    return {
        labels.SANDBOX: identity(command),
        "app.kubernetes.io/name": "jervis",
        "app.kubernetes.io/component": "sandbox",
    }


def _pod(command: Command, template: Template) -> dict[str, Any]:
    run = template.run
    empty = ("work", "left", "kept", "tmp", "command-tmp")
    return {
        **run.pod,
        **confined.pod(run.service_account, run.run_as_user),
        "tolerations": [dict(each) for each in run.tolerations],
        "initContainers": [_ours(FETCH, command, template), _command(command, template)],
        "containers": [_ours(REPORT, command, template)],
        "volumes": [
            *({"name": each, "emptyDir": {"sizeLimit": template.scratch}} for each in empty),
            confined.volume("token", name(command)),
        ],
    }


def _ours(step: str, command: Command, template: Template) -> dict[str, Any]:
    where, limits = command.scope, command.limits
    given = {
        "KB_URL": template.kb_url,
        "TOKEN_FILE": f"{_TOKEN}/{confined.TOKEN_KEY}",
        "CLIENT": where.client_id,
        "PROJECT": where.project_id,
        "GROUP": where.group_id,
        "KEY": command.workspace.key,
        "SHA256": command.workspace.sha256,
        "OUTPUT_BYTES": str(limits.output_bytes),
        "PATCH_BYTES": str(limits.patch_bytes),
    }
    return {
        **confined.container(step, template.run.image, template.run.image_pull_policy),
        "command": ["python", "-m", "orchestrator_job.sandbox", step],
        "env": [{"name": f"JERVIS_SANDBOX_{key}", "value": value} for key, value in given.items()],
        "resources": dict(template.run.resources),
        "volumeMounts": [
            {"name": "work", "mountPath": _WORK},
            {"name": "left", "mountPath": _LEFT},
            {"name": "kept", "mountPath": _KEPT},
            {"name": "tmp", "mountPath": _SCRATCH},
            {"name": "token", "mountPath": _TOKEN, "readOnly": True},
        ],
    }


def _command(command: Command, template: Template) -> dict[str, Any]:
    limits = command.limits
    bounds = {"cpu": template.cpu, "memory": limits.memory}
    return {
        **confined.container(COMMAND, template.images[command.image], template.run.image_pull_policy),
        # Always ends with 0: how the command ended is a result, and report runs whatever it was.
        "command": ["/bin/sh", "-c", SCRIPT, "sandbox", str(limits.seconds), str(limits.output_bytes), *command.argv],
        "env": [{"name": "HOME", "value": _SCRATCH}, {"name": "CI", "value": "true"}],
        "resources": {"requests": bounds, "limits": bounds},
        "volumeMounts": [
            {"name": "work", "mountPath": _WORK},
            {"name": "left", "mountPath": _LEFT},
            {"name": "command-tmp", "mountPath": _SCRATCH},
        ],
    }
