"""The Job of one analysis, and the Secret with its token. Pure.

    clone (token) -> structure (token) -> joern (no token) -> report (token)

Joern reads foreign code, and may run a foreign query: it has neither a token nor an address of ours, and more memory.
The structure comes before it, because a pod whose Joern is killed goes no further. The Job lives in the release's
namespace, as runs do (docs/decisions/0026); the content of a repository has no influence on the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from contracts.tokens import runtoken
from controllers import confined
from controllers.pendingtask import job as runs
from crds import connection, labels, scope
from crds.pendingtask import Analysis, Mode, PendingTask
from crds.priority import Priority
from kube import lease
from sources.core import repositories

CLONE, STRUCTURE, JOERN, REPORT = "clone", "structure", "joern", "report"
"""The containers of the pod, in this order."""
QUERY_PREFIX = "code-query-"
"""Of the names of Jobs for ad-hoc queries."""
COMPONENT = "code-analysis"
UNTENDED_SECONDS = 86_401
"""How long an ended Job stays whose end nothing has recorded. No round number: another time to live says that it is."""
MARGIN = timedelta(minutes=15)
"""How much longer than its Job a token lasts: a pod may wait for a node or an image, which counts for the Job, and
clocks differ."""
_JOERN_SHARE = 0.75
"""Of the seconds of a Job; the rest is for clone and report."""
_QUERY_KEY, _QUERY = "query", "/var/run/jervis-query"
_TOKEN = "/var/run/jervis"  # noqa: S105  # a mount path, no password
_WORK, _SCRATCH = "/workspace", "/tmp"  # noqa: S108  # mount points


@dataclass(frozen=True, slots=True)
class Template:
    """What all of these Jobs share; `run` has what they share with runs: namespace, image, account, placement.

    Without `joern` (an image) there is no Cpg. `memory` is that of Joern, `heap` its JVM's (such as 3g). The addresses
    are those of the sources process and of the knowledge base that writes.
    """

    run: runs.Template
    sources_url: str
    kb_url: str
    joern: str
    seconds: int
    memory: str
    heap: str
    ttl_seconds: int
    scratch: str = "4Gi"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one Job does. `id` is the uid of the task of that name, or the id of the query, whose text is in `query`.
    `namespace` is that of the Connection, `repository` its ORG/NAME, and `scope` that of its documents."""

    id: str
    job: str
    namespace: str
    connection: str
    repository: str
    ref: str
    scope: scope.Scope
    steps: tuple[Analysis, ...] = ()
    task: str = ""
    query: str = ""
    seconds: int | None = None


def of_task(task: PendingTask, source: connection.Spec, *, joern: bool) -> Attempt | None:
    """The Job for the task, without what only a missing Joern could do; None: nothing is left.
    Raises `crds.errors.Permanent` where the Connection names no repository.

    Its name follows from the task, so that the apiserver refuses a second one.
    """
    git = task.spec.git
    steps = tuple(one for one in Analysis if git is not None and one in git.analysis and (joern or one != Analysis.CPG))
    if git is None or not steps:
        return None
    uid, where = task.metadata.uid, repositories.owner(source)
    return Attempt(
        uid,
        name(uid),
        task.metadata.namespace,
        git.connection,
        repositories.of(source.url).path,
        git.ref,
        where,
        steps,
        task.metadata.name,
    )


def name(uid: str) -> str:
    """Of the Job of a task."""
    return f"code-{uid}"


def manifest(one: Attempt, template: Template, token: lease.FencingToken) -> dict[str, Any]:
    """The Job as the leader with that `token` sends it. One whose end is not recorded goes after a day."""
    metadata = {
        "name": one.job,
        "namespace": template.run.namespace,
        "labels": _labels(one),
        "annotations": {**runs.fence(token), **_annotations(one)},
    }
    # Nothing is tried twice: who wants that makes another task.
    return confined.job(metadata, _pod(one, template), _seconds(one, template), UNTENDED_SECONDS, replaced=True)


def secret(one: Attempt, template: Template, uid: str, signer: runtoken.Signer) -> dict[str, Any]:
    """The Secret of the Job `uid`, which owns it: the token and, under a key of its own, the query."""
    claims = runtoken.Run(
        task_uid=one.id,
        namespace=one.namespace,
        attempt=0,
        scope=one.scope,
        mode=Mode.BACKGROUND,
        ceiling=Priority.P3,
        repository=one.repository,
    )
    lifetime = timedelta(seconds=_seconds(one, template)) + MARGIN
    values = {confined.TOKEN_KEY: signer.sign(claims, lifetime, runtoken.ANALYSIS_AUDIENCE)}
    if one.query:
        values[_QUERY_KEY] = one.query
    return confined.secret(one.job, uid, template.run.namespace, _labels(one), values)


def _annotations(one: Attempt) -> dict[str, str]:
    named = {labels.TASK_NAME: one.task} if one.task else {}
    return {labels.TASK_NAMESPACE: one.namespace, labels.CONNECTION: one.connection, **named}


def _seconds(one: Attempt, template: Template) -> int:
    return min(one.seconds or template.seconds, template.seconds)


def _labels(one: Attempt) -> dict[str, str]:
    return {
        labels.CODE_ANALYSIS: one.id,
        "app.kubernetes.io/name": "jervis",
        "app.kubernetes.io/component": COMPONENT,
    }


def _pod(one: Attempt, template: Template) -> dict[str, Any]:
    run = template.run
    *before, last = _containers(one, template)
    volumes = [
        *({"name": name, "emptyDir": {"sizeLimit": template.scratch}} for name in ("work", "left", "tmp", "joern")),
        confined.volume("token", one.job),
    ]
    if one.query:
        volumes.append(confined.volume("query", one.job, _QUERY_KEY, "query.sc"))
    return {
        **run.pod,
        **confined.pod(run.service_account, run.run_as_user),
        "tolerations": [dict(each) for each in run.tolerations],
        "initContainers": before,
        "containers": [last],
        "volumes": volumes,
    }


def _containers(one: Attempt, template: Template) -> list[dict[str, Any]]:
    """In order; the last one is the pod's, the others are its init containers."""
    seconds = str(_seconds(one, template))
    of = {
        "NAMESPACE": one.namespace,
        "CONNECTION": one.connection,
        "SECONDS": seconds,
    }
    owner = {"CLIENT": one.scope.client_id, "PROJECT": one.scope.project_id, "GROUP": one.scope.group_id}
    ours = {**of, **owner, "KB_URL": template.kb_url}
    early = [step.value for step in one.steps if step is not Analysis.CPG]
    made = [_program(CLONE, CLONE, template, {**of, "SOURCES_URL": template.sources_url, "REF": one.ref})]
    if one.query or Analysis.CPG in one.steps:
        if early:
            made.append(_program(STRUCTURE, REPORT, template, {**ours, "STEPS": ",".join(early)}))
        made.append(_joern(one, template))
        late = {"QUERY_ID": one.id, "STEPS": ""} if one.query else {"STEPS": Analysis.CPG.value}
        return [*made, _program(REPORT, REPORT, template, {**ours, **late})]
    return [*made, _program(REPORT, REPORT, template, {**ours, "STEPS": ",".join(early)})]


def _program(name: str, step: str, template: Template, values: Mapping[str, str]) -> dict[str, Any]:
    token = {"name": "token", "mountPath": _TOKEN, "readOnly": True}
    run = template.run
    return {
        **_container(
            name, run.image, run.image_pull_policy, {**values, "TOKEN_FILE": f"{_TOKEN}/{confined.TOKEN_KEY}"}
        ),
        "command": ["python", "-m", "orchestrator_job.analyze", step],
        "resources": dict(run.resources),
        "volumeMounts": [*_WORKING, {"name": "tmp", "mountPath": _SCRATCH}, token],
    }


def _joern(one: Attempt, template: Template) -> dict[str, Any]:
    values = {"HEAP": template.heap, "SECONDS": str(int(_seconds(one, template) * _JOERN_SHARE))}
    # What runs here changes neither the clone, whose settings a later Git would obey, nor what that Git writes.
    work, left = _WORKING
    mounts = [{**work, "readOnly": True}, left, {"name": "joern", "mountPath": _SCRATCH}]
    if one.query:
        values["QUERY_FILE"] = f"{_QUERY}/query.sc"
        mounts.append({"name": "query", "mountPath": _QUERY, "readOnly": True})
    return {
        **_container(JOERN, template.joern, template.run.image_pull_policy, values),
        "command": ["/opt/joern/analyze"],
        "resources": {"requests": {"cpu": "500m", "memory": template.memory}, "limits": {"memory": template.memory}},
        "volumeMounts": mounts,
    }


_WORKING: tuple[dict[str, Any], ...] = (
    {"name": "work", "mountPath": _WORK},
    # The first container, which may write to what is around it, has its mount point made for all of them.
    {"name": "left", "mountPath": f"{_WORK}/.jervis"},
)


def _container(name: str, image: str, policy: str, values: Mapping[str, str]) -> dict[str, Any]:
    return {
        **confined.container(name, image, policy),
        "env": [{"name": f"JERVIS_ANALYZE_{key}", "value": value} for key, value in values.items()],
    }
