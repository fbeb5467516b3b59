"""The Job of one run: its deterministic name and its manifest.

The same task and attempt always give the same name, so the apiserver refuses a repeated creation and no second run
starts. The task's content has no influence: image, service account and command come from the settings alone.
Runs live in the release's namespace, whatever the namespace of their task. Owner references cannot cross namespaces, so
`orphans` deletes the runs of deleted tasks. Source: operator.md points 3 and 10; blueprint section 4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from contracts import trace
from controllers import confined
from controllers.clusterstate import reading as clusterstate
from crds import exit_reasons, flags, order, pendingtask
from crds import labels as names
from kube import lease

UID_LABEL = names.TASK_UID
TASK_LABEL = names.TASK
TASK_NAMESPACE_LABEL = names.TASK_NAMESPACE
TASK_NAME_ANNOTATION = names.TASK_NAME
ATTEMPT_LABEL = names.ATTEMPT
BACKEND_ANNOTATION = names.BACKEND
EPOCH_ANNOTATION = names.LEADER_EPOCH
LEASE_ANNOTATION = names.LEASE_CREATED
SUSPENDED_ANNOTATION = names.SUSPENDED_BY
QUEUE_LABEL = names.QUEUE
OPERATOR = "operator"
"""Value of the suspension annotation."""
CONTAINER = names.CONTAINER
COMMON_LABELS = {"app.kubernetes.io/name": "jervis", "app.kubernetes.io/component": "orchestrator-job"}
MONGODB_VARIABLE = "JERVIS_MONGODB_URI"
SCRATCH = "1Gi"
"""Of the directory in which a run clones repositories: a clone with its files is bounded by half of it."""
_MAX_NAME = 63
# The Job controller appends "-" and five characters for the pod, whose host name is cut at 63.
_MAX_BASE = _MAX_NAME - 6
# The default tolerates a node that does not answer for five minutes.
_UNREACHABLE = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 15}
    for key in ("not-ready", "unreachable")
]
RUN_TOKEN = "/var/run/jervis"  # noqa: S105  # a mount path, no password
TOKEN_VARIABLE = "JERVIS_RUN_TOKEN_FILE"  # noqa: S105  # the name of a variable, no password


@dataclass(frozen=True, slots=True)
class Template:
    """The settings that all runs share. `resources` is a Kubernetes ResourceRequirements.

    `namespace` is the release's: it holds Jobs, pods and the Secrets that they name. With `mongodb_secret` the address
    comes from that Secret, and `mongodb_uri`, which may hold a password, is not written into Jobs. With `run_tokens` a
    run mounts the Secret with its own token for the services that it calls (`effects.run_token`).
    `release` is NAMESPACE/LEASE of the operator, which counts what its own runs delegate.
    `cluster_state` says of which namespaces a run may ask for the state, at `cluster_state_url`.
    `pod` holds more fields of the PodSpec, the lists below it more Tolerations, EnvVars, Volumes and VolumeMounts: they
    are added to what every run has, and override none of it. Without `run_as_user` the platform assigns the user.
    """

    namespace: str
    image: str
    image_pull_policy: str
    service_account: str
    kb_url: str
    router_url: str
    mongodb_uri: str
    model: str
    num_ctx: int | None = None
    planner_model: str = ""
    planner_num_ctx: int | None = None
    release: str = ""
    sources_url: str = ""
    cluster_state_url: str = ""
    cluster_state: clusterstate.Allowed | None = None
    mongodb_database: str = "jervis"
    mongodb_secret: str = ""
    mongodb_secret_key: str = "uri"  # noqa: S105  # the name of a key, no password
    run_tokens: bool = False
    priority: int = 0
    grace_seconds: int = 60
    default_deadline_seconds: int = 3600
    resources: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[flags.Flag, bool] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    run_as_user: int | None = 10001
    pod: Mapping[str, Any] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    extra_env: Sequence[Mapping[str, Any]] = ()
    volumes: Sequence[Mapping[str, Any]] = ()
    volume_mounts: Sequence[Mapping[str, Any]] = ()


# The operator owns retries. The Job itself only replaces pods that were disrupted (eviction, node drain) or have
# drained, once they have ended. A suspended Job must not fail because of the exit code of the pod that drained on
# request.
ONCE: Mapping[str, Any] = MappingProxyType(
    {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                confined.DISRUPTED,
                {
                    "action": "Ignore",
                    "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [exit_reasons.DRAINED]},
                },
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [exit_reasons.FAILED]},
                },
            ]
        },
    }
)
"""Of the spec of each Job of runs."""


def name(task_name: str, uid: str, attempt: int) -> str:
    """`<task>-<uid8>-<attempt>`, at most 57 characters, a DNS label."""
    suffix = f"-{uid.replace('-', '')[:8]}-{attempt}"
    stem = re.sub(r"[^a-z0-9-]+", "-", task_name.lower())[: _MAX_BASE - len(suffix)].strip("-")
    return f"{stem or 'task'}{suffix}"


def labels(task: pendingtask.PendingTask, attempt: int) -> dict[str, str]:
    """The labels by which Jobs and pods are found; a label value has at most 63 characters."""
    return {
        UID_LABEL: task.metadata.uid,
        TASK_LABEL: task.metadata.name[:63].strip("-."),
        TASK_NAMESPACE_LABEL: task.metadata.namespace,
        ATTEMPT_LABEL: str(attempt),
        **COMMON_LABELS,
    }


def manifest(
    task: pendingtask.PendingTask,
    attempt: int,
    job_name: str,
    template: Template,
    *,
    token: lease.FencingToken = lease.NO_LEADER,
    chosen: Mapping[flags.Flag, bool] = MappingProxyType({}),
) -> dict[str, Any]:
    """The Job as the leader with that `token` sends it to the apiserver. `chosen`: the flags that the task chooses.

    With a Kueue queue among the template's labels it is created suspended: Kueue resumes it.
    """
    job_labels = {**template.labels, **labels(task, attempt)}
    queued = QUEUE_LABEL in job_labels
    backend = task.status.dispatch.backend if task.status.dispatch else ""
    booked = {**template.annotations, BACKEND_ANNOTATION: backend}
    # Only the Job has the queue label: Kueue would queue a pod with that label as a workload of its own.
    pod_labels = {key: value for key, value in job_labels.items() if key != QUEUE_LABEL}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name,
            "namespace": template.namespace,
            "labels": job_labels,
            "annotations": {**booked, TASK_NAME_ANNOTATION: task.metadata.name, **fence(token)},
        },
        "spec": {
            **({"suspend": True} if queued else {}),
            **ONCE,
            "activeDeadlineSeconds": deadline(task, template),
            "template": {
                "metadata": {"labels": pod_labels, "annotations": booked},
                "spec": _with_token(
                    pod(template, {**shared(template), **own(task, attempt, template, chosen)}), job_name, template
                ),
            },
        },
    }


def deadline(task: pendingtask.PendingTask, template: Template) -> int:
    """Seconds that a run may take after each start or resumption of its Job."""
    return task.spec.active_deadline_seconds or template.default_deadline_seconds


def suspension(suspend: bool, token: lease.FencingToken) -> dict[str, Any]:
    """The merge patch by which the leader with that `token` suspends a Job, with an annotation, or undoes both."""
    annotations = {**fence(token), SUSPENDED_ANNOTATION: OPERATOR if suspend else None}
    return {"metadata": {"annotations": annotations}, "spec": {"suspend": suspend}}


def expiry(ttl_seconds: int, token: lease.FencingToken) -> dict[str, Any]:
    """The merge patch by which the leader with that `token` has a finished Job deleted after `ttl_seconds`."""
    return {"metadata": {"annotations": fence(token)}, "spec": {"ttlSecondsAfterFinished": ttl_seconds}}


def fence(token: lease.FencingToken) -> dict[str, str]:
    """The annotations by which an admission policy refuses the writes of a former leader."""
    return {EPOCH_ANNOTATION: str(token.epoch), LEASE_ANNOTATION: token.lease_created}


def pod(template: Template, values: Mapping[str, str]) -> dict[str, Any]:
    """The PodSpec of a run with the environment `values`, which override the template's."""
    return {
        **template.pod,
        **confined.pod(template.service_account, template.run_as_user, template.grace_seconds),
        "containers": [
            {
                **confined.container(CONTAINER, template.image, template.image_pull_policy),
                "command": ["python", "-m", "orchestrator_job"],
                "env": _environment(template, values),
                "resources": dict(template.resources),
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *map(dict, template.volume_mounts)],  # noqa: S108  # a mount point
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": SCRATCH}}, *map(dict, template.volumes)],
        "tolerations": [*_UNREACHABLE, *map(dict, template.tolerations)],
    }


def mount(pod: dict[str, Any], volume: Mapping[str, Any], path: str, *, read_only: bool = True) -> None:
    """Add a volume to the only container of a pod."""
    pod["volumes"].append(dict(volume))
    (container,) = pod["containers"]
    container["volumeMounts"].append({"name": volume["name"], "mountPath": path, "readOnly": read_only})


def set_variable(pod: dict[str, Any], name: str, value: str) -> None:
    """Add a variable to the only container of a pod."""
    (container,) = pod["containers"]
    container["env"].append({"name": name, "value": value})


def _with_token(pod: dict[str, Any], secret: str, template: Template) -> dict[str, Any]:
    """The Secret is mounted as a directory: the kubelet does not update a single mounted file."""
    if template.run_tokens:
        mount(pod, confined.volume("run-token", secret), RUN_TOKEN)
        set_variable(pod, TOKEN_VARIABLE, f"{RUN_TOKEN}/{confined.TOKEN_KEY}")
    return pod


def _cluster_state(namespace: str, template: Template) -> dict[str, str]:
    """Of a task whose namespace's state is shown to its runs: another one's run would only be refused."""
    allowed = template.cluster_state
    if allowed is None or not template.run_tokens or not allowed.state(namespace):
        return {}
    found = {"JERVIS_CLUSTER_STATE_URL": template.cluster_state_url}
    return {**found, "JERVIS_CLUSTER_STATE_LOGS": str(allowed.log(namespace)).lower()}


def shared(template: Template) -> dict[str, str]:
    """The variables that all runs have alike."""
    return {
        **template.environment,
        "JERVIS_KB_URL": template.kb_url,
        "JERVIS_ROUTER_URL": template.router_url,
        **({"JERVIS_SOURCES_URL": template.sources_url} if template.sources_url else {}),
        MONGODB_VARIABLE: template.mongodb_uri,
        "JERVIS_DATABASE": template.mongodb_database,
        **({"JERVIS_RELEASE": template.release} if template.release else {}),
        "JERVIS_MODEL": template.model,
        **({"JERVIS_NUM_CTX": str(template.num_ctx)} if template.num_ctx else {}),
        **({"JERVIS_PLANNER_MODEL": template.planner_model} if template.planner_model else {}),
        **({"JERVIS_PLANNER_NUM_CTX": str(template.planner_num_ctx)} if template.planner_num_ctx else {}),
        "JERVIS_PRIORITY": str(template.priority),
    }


def own(
    task: pendingtask.PendingTask, attempt: int, template: Template, chosen: Mapping[flags.Flag, bool]
) -> dict[str, str]:
    """The variables of one run of one task."""
    features = {**template.features, **chosen}
    return {
        "JERVIS_TASK_UID": task.metadata.uid,
        "JERVIS_TASK_NAME": task.metadata.name,
        "JERVIS_TASK_NAMESPACE": task.metadata.namespace,
        "JERVIS_ATTEMPT": str(attempt),
        "JERVIS_MODE": order.mode(task.spec).value,
        **{flag.variable: str(features.get(flag, False)).lower() for flag in flags.Flag},
        **_cluster_state(task.metadata.namespace, template),
        # The run ends itself shortly before the Job controller would, and reports the reason.
        "JERVIS_WALL_CLOCK_SECONDS": str(deadline(task, template)),
        **({trace.VARIABLE: trace.parent(task.metadata.uid)} if task.status.trace_id else {}),
    }


def _environment(template: Template, values: Mapping[str, str]) -> list[dict[str, Any]]:
    """EnvVars, each name once; `values` override the template's `extra_env`."""
    variables: list[dict[str, Any]] = [{"name": key, "value": value} for key, value in values.items()]
    if template.mongodb_secret:
        reference = {"name": template.mongodb_secret, "key": template.mongodb_secret_key}
        variables = [one for one in variables if one["name"] != MONGODB_VARIABLE]
        variables.append({"name": MONGODB_VARIABLE, "valueFrom": {"secretKeyRef": reference}})
    return [*(dict(one) for one in template.extra_env if one["name"] not in values), *variables]
