"""What a task's status says about the analysis of `spec.git`: the condition CodeAnalyzed and `status.git`. Pure.

Unknown while it waits or runs, True with what was found, or False with what is missing and what to change. False is no
failure of the task: it goes on, with the content that it has or with none.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from controllers.codeanalysis import outcome
from crds import conditions, connection, pendingtask, scope
from crds.pendingtask import Analysis
from sources.core import repositories

WAITING, RUNNING, SUCCEEDED = "Waiting", "Running", "Succeeded"
DISABLED, NOT_FOUND, NOT_READY = "Disabled", "ConnectionNotFound", "NotReady"
PATIENCE = timedelta(minutes=10)
"""For a Connection that is not there or not Ready, since the task is due: both may be applied at once, and a clone of a
large repository takes minutes."""
_READ_LOG = "The log of the Job's pod says more."
REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        DISABLED: "Set joern.enabled, sources.enabled and runToken of the chart.",
        NOT_FOUND: "Name a Connection of type Git in the task's namespace, of its client, that is not suspended.",
        NOT_READY: "See its condition Ready: kubectl describe connection.",
        "CloneFailed": "See that the Connection is Ready and reads this branch: kubectl describe connection.",
        "OutOfMemory": "Raise joern.memory and joern.heap of the chart.",
        "DeadlineExceeded": "Raise joern.seconds of the chart.",
        "LanguagesMissing": "Leave Cpg out; Structure reads more languages (docs/code.md).",
        "CommitMoved": "The branch moved on meanwhile; ask again in another task.",
        "JobRefused": "See the quota or policy of the release's namespace.",
        "JobLost": "It was deleted; ask again in another task.",
    }
)


_REASONS = frozenset({*REMEDIES, SUCCEEDED, "JoernFailed", "ReportFailed", "ReportUnreadable", "ReportIncomplete",
    "KnowledgeBaseAway", "KnowledgeBaseRefused", "RepositoryUnreadable", "InvalidQuery", "JobFailed"})  # fmt: skip


def label(reason: str) -> str:
    """A reason as a label of metrics: pods give some of their own, of which there may be any number."""
    return reason if reason in _REASONS else "Other"


def blocked(task: pendingtask.PendingTask, found: connection.Connection | None) -> tuple[str, str] | None:
    """Why the Connection cannot be read now: (reason, sentence); None if it can."""
    git = task.spec.git
    assert git is not None
    if found is None or not readable(found, scope_of(task)):
        return NOT_FOUND, f"There is no Git Connection {git.connection} that the task's scope may read."
    ready = conditions.find(found.status.conditions, "Ready")
    if found.spec.suspend or ready is None or ready.status is not conditions.Status.TRUE:
        why = "it is suspended" if found.spec.suspend else ready.message if ready is not None else "it was not read yet"
        return NOT_READY, f"Connection {git.connection} is not Ready: {why}"[:1000]
    return None


def scope_of(task: pendingtask.PendingTask) -> scope.Scope:
    """Whose the task is."""
    spec = task.spec
    return scope.Scope(client_id=spec.client_id, project_id=spec.project_id or "", group_id=spec.group_id or "")


def readable(found: connection.Connection, where: scope.Scope) -> bool:
    """Whether it is of a repository that `where` may read."""
    return found.spec.type is connection.Type.GIT and repositories.visible(found.spec, where)


def patient(task: pendingtask.PendingTask, now: datetime) -> bool:
    """Whether what blocks the analysis may still pass."""
    due = task.status.phase_times.get(task.status.phase or "", task.metadata.creation_timestamp)
    return due is None or now - due < PATIENCE


def condition(
    task: pendingtask.PendingTask, ok: bool | None, reason: str, message: str, now: datetime
) -> conditions.Condition:
    """CodeAnalyzed; `ok` None: it waits or runs."""
    generation = task.metadata.generation
    return conditions.make(pendingtask.CODE_ANALYZED, ok, reason, message, now=now, generation=generation)


def failed(task: pendingtask.PendingTask, why: outcome.Failure, now: datetime) -> conditions.Condition:
    """The sentence and what to do about it."""
    text = why.message.strip()
    if text and not text.endswith((".", "!", "?")):
        text += "."
    return condition(task, False, why.reason, f"{text} {REMEDIES.get(why.reason, _READ_LOG)}".strip(), now)


def result(
    task: pendingtask.PendingTask, end: outcome.Ended, now: datetime, *, joern: bool
) -> tuple[dict[str, Any], conditions.Condition]:
    """`status.git` without its Job, and the condition, of a Job that has ended. `joern`: the Job could make a Cpg."""
    report, git = end.report, task.spec.git
    assert git is not None
    found = pendingtask.GitStatus(
        repository=report.repository,
        branch=report.branch,
        commit=report.commit,
        files=None if report.structure is None else report.structure.files,
        symbols=None if report.structure is None else report.structure.symbols,
        methods=None if report.cpg is None else report.cpg.methods,
        calls=None if report.cpg is None else report.cpg.calls,
        extends=None if report.cpg is None else report.cpg.extends,
        uses_type=None if report.cpg is None else report.cpg.uses_type,
        languages=() if report.cpg is None else report.cpg.languages,
        skipped_languages=() if report.cpg is None else report.cpg.missing,
        overview=report.overview,
    )
    wire = {key: value for key, value in found.wire().items() if key not in ("job", "jobUid")}
    there = sentence(found, known=report.structure is not None)
    why = end.failure or _lacking(git, report, joern=joern)
    if why is None:
        return wire, condition(task, True, SUCCEEDED, there, now)
    text = f"{why.message.strip()} {there}" if there else why.message
    return wire, failed(task, outcome.Failure(reason=why.reason, message=text[:1500]), now)


def _lacking(git: pendingtask.Git, report: outcome.Report, *, joern: bool) -> outcome.Failure | None:
    """What was asked for and is not there, although nothing failed."""
    cpg = report.cpg
    if Analysis.CPG in git.analysis and not joern:
        return outcome.Failure(reason=DISABLED, message="Cpg is not made: this release has no Joern.")
    if cpg is not None and cpg.missing and not cpg.languages:
        named = ", ".join(cpg.missing)
        return outcome.Failure(reason="LanguagesMissing", message=f"Joern reads none of the languages: {named}.")
    made = {Analysis.OVERVIEW: report.overview, Analysis.STRUCTURE: report.structure, Analysis.CPG: cpg}
    missing = [one.value for one in git.analysis if made[one] is None]
    if missing:
        return outcome.Failure(
            reason="ReportIncomplete", message=f"Its pod reported nothing about {', '.join(missing)}."
        )
    return None


def sentence(found: pendingtask.GitStatus, *, known: bool) -> str:
    """What was found, for people; "" for nothing. `known`: the structure is there."""
    said = []
    if found.files is not None:
        declared = "whose declarations were known" if found.symbols is None else f"with {found.symbols} declarations"
        said.append(f"{found.files} files {declared}")
    elif known:
        said.append("the structure was known")
    if found.methods is not None:
        named = f" in {', '.join(found.languages)}" if found.languages else ""
        left = f" (not read: {', '.join(found.skipped_languages)})" if found.skipped_languages else ""
        said.append(f"by Joern {found.methods} methods and {found.calls or 0} further calls{named}{left}")
    if found.overview is not None:
        said.append("an overview")
    if not found.commit or not said:
        return ""
    where = f"{found.repository} " if found.repository else ""
    return f"{where}{found.branch} at {found.commit[:12]}: {', '.join(said)}."
