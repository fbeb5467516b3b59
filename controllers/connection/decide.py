"""From a Connection's spec to its conditions. Pure; honest about what is not done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from controllers.connection.credentials import Finding
from crds import addresses, conditions, connection
from crds.connection import WorkspaceState
from sources.core.state import BROKEN, HELD, Arrival, Failed, State, Workspace

SENDING = "SendingReady"
"""The condition about spec.smtp."""
_POLLED = (
    "cursor",
    "lastPollTime",
    "lastSuccessTime",
    "items",
    "waitingSince",
    "failures",
    "latest",
    "lastHandledRetry",
    "lastHandledResync",
    "workspace",
)
"""The fields of the status about polls."""
GRACE = timedelta(seconds=60)
"""After two intervals, before a Connection without a poll is late."""


def polled(spec: connection.Spec) -> bool:
    """Whether this version polls the Connection: its type has a provider in `sources` for the URL's scheme."""
    return spec.url.partition(":")[0] in connection.SCHEMES[spec.type]


def late_at(conn: connection.Connection, state: State) -> datetime | None:
    """When the last success is two intervals old; None without one."""
    if state.succeeded_at is None:
        return None
    return state.succeeded_at + timedelta(seconds=2 * connection.seconds(conn.spec.poll_interval)) + GRACE


def accepted(
    conn: connection.Connection, found: Finding, *, file_urls: bool = False, hosts: Sequence[str] = ()
) -> bool:
    """Whether it may be polled; `found` is about its credentials, `file_urls` allows file:// for Git. `hosts` may be
    named, none for every host."""
    stopped = found.ok is False or found.stops or conn.spec.suspend
    return not stopped and not any(_problems(conn, file_urls, hosts)) and polled(conn.spec)


def patch(
    conn: connection.Connection,
    found: Finding,
    now: datetime,
    *,
    file_urls: bool = False,
    hosts: Sequence[str] = (),
    state: State | None = None,
    sending: Finding | None = None,
    holder: str = "",
) -> dict[str, Any]:
    """Merge patch of the status; empty when it already says all of this. `state`: what the polls came to, None where
    no sources are polled; `sending` is about the login of spec.smtp; `holder` is another release that polls it.
    Otherwise see `accepted`."""
    listed = conn.status.conditions
    generation = conn.metadata.generation
    if sending is None:
        listed = tuple(one for one in listed if one.type != SENDING)
    else:
        said_of = conditions.make(SENDING, sending.ok, sending.reason, sending.message, now=now, generation=generation)
        listed = conditions.put(listed, said_of)
    for one in _conditions(conn, found, now, _problems(conn, file_urls, hosts), state, holder):
        listed = conditions.put(listed, one)
    said = [(c.type, c.status, c.reason, c.message) for c in listed]
    before = [(c.type, c.status, c.reason, c.message) for c in conn.status.conditions]
    values: dict[str, Any] = {}
    if state is not None and (state.polled_at is not None or state.workspace is not None):
        values = _values(conn.status, state)
    if said == before and conn.status.observed_generation == conn.metadata.generation and not values:
        return {}
    return {"conditions": [c.wire() for c in listed], "observedGeneration": conn.metadata.generation, **values}


def _values(status: connection.Status, state: State) -> dict[str, Any]:
    """The fields about polls, if they say something else now."""
    new = status.model_copy(
        update={
            "cursor": state.cursor,
            "last_poll_time": _whole(state.polled_at),
            "last_success_time": _whole(state.succeeded_at),
            "items": connection.Items(**{key.casefold(): value for key, value in (state.items or {}).items()}),
            "waiting_since": _whole(state.waiting_since),
            "failures": tuple(_failure(one) for one in state.failed),
            "latest": tuple(_arrival(arrival) for arrival in state.latest),
            "last_handled_retry": state.retried,
            "last_handled_resync": state.resynced,
            "workspace": _workspace(state.workspace),
        }
    )
    wire = new.wire()
    # None takes a field out of the object.
    return {} if new == status else {name: wire.get(name) for name in _POLLED}


def _workspace(one: Workspace | None) -> connection.Workspace | None:
    if one is None:
        return None
    return connection.Workspace(
        state=one.state, retry_count=one.failures, next_retry_at=_whole(one.retry_at), last_error=one.error
    )


def _failure(one: Failed) -> connection.Failure:
    return connection.Failure(
        title=one.title,
        reason=one.reason,
        found_at=_whole(one.found),
        retry_at=_whole(one.retry_at),
        remedy=connection.Remedy.RETRY if one.stored else connection.Remedy.RESYNC,
    )


def _arrival(arrival: Arrival) -> connection.Arrival:
    return connection.Arrival(
        title=arrival.title, source_urn=arrival.urn, found_at=_whole(arrival.found), left_out=arrival.left_out
    )


def _whole(at: datetime | None) -> datetime | None:
    return at and at.replace(microsecond=0)


def _conditions(
    conn: connection.Connection,
    found: Finding,
    now: datetime,
    problems: tuple[str, str],
    state: State | None,
    holder: str,
) -> tuple[conditions.Condition, ...]:
    generation = conn.metadata.generation

    def make(type_: str, ok: bool | None, reason: str, message: str) -> conditions.Condition:
        return conditions.make(type_, ok, reason, message, now=now, generation=generation)

    credentials = make("CredentialsValid", found.ok, found.reason, found.message)
    if found.ok is False or found.stops:
        return credentials, make("Ready", False, found.reason, found.message)
    wrong, unlisted = problems
    if wrong:
        return credentials, make("Ready", False, "InvalidURL", wrong)
    if unlisted:
        return credentials, make("Ready", False, "HostNotAllowed", unlisted)
    if conn.spec.suspend:
        return credentials, make("Ready", False, "Suspended", "spec.suspend is true; set it to false to go on.")
    if holder:
        text = (
            f"Release {holder} has this Connection in the same MongoDB database. Give each release its own"
            " mongodb.database, or namespaces of its own."
        )
        return credentials, make("Ready", False, "ServedByAnotherRelease", text)
    if state is not None and polled(conn.spec):
        if state.generation == generation and state.rejected:
            credentials = make("CredentialsValid", False, "CredentialsRejected", state.message)
        elif state.generation == generation and state.succeeded_at is not None:
            credentials = make("CredentialsValid", True, "Accepted", "The source accepts them.")
        made = (credentials, _ready(conn, state, now), *_deletions(conn, state, now))
        return made if state.workspace is None else (*made, _cloned(conn, state.workspace, now))
    text = (
        f"The object is valid. Fetching from {conn.spec.type.value} sources is not part of this version of the"
        " operator; create PendingTasks for the items meanwhile."
    )
    return credentials, make("Ready", False, "PollingNotEnabled", text)


def _ready(conn: connection.Connection, state: State, now: datetime) -> conditions.Condition:
    """Two intervals without a success are too long, whatever the reason."""
    late, generation = late_at(conn, state), conn.metadata.generation

    def make(type_: str, ok: bool | None, reason: str, message: str) -> conditions.Condition:
        return conditions.make(type_, ok, reason, message, now=now, generation=generation)

    if state.polled_at is None or (late is None and not state.failures):
        return make("Ready", None, "NotPolledYet", "The first poll has not ended yet.")
    if late is not None and now < late:
        again = f" The last poll failed and is repeated: {state.message}" if state.failures else ""
        text = f"The source answers; what is new becomes PendingTasks.{again} {state.refused}".rstrip()
        return make("Ready", True, "Polled", text[:1024])
    if state.failures:
        return make("Ready", False, state.reason, state.message)
    text = (
        "No poll has ended for two intervals. Look at the sources process:"
        " kubectl logs -l app.kubernetes.io/component=sources."
    )
    return make("Ready", False, "NotPolled", text)


def _cloned(conn: connection.Connection, found: Workspace, now: datetime) -> conditions.Condition:
    """What the clone of a Git Connection has come to."""
    generation = conn.metadata.generation
    if found.state is WorkspaceState.READY:
        return conditions.make(
            "WorkspaceReady", True, "Cloned", "The repository is cloned.", now=now, generation=generation
        )
    if found.state is WorkspaceState.CLONING:
        text = "The repository is being cloned."
        return conditions.make("WorkspaceReady", None, "Cloning", text, now=now, generation=generation)
    at = f" The next try is at {_whole(found.retry_at):%Y-%m-%dT%H:%M:%SZ};" if found.retry_at else ""
    text = f"Try {found.failures} failed.{at} kubectl jervis retry connection/{conn.metadata.name} tries at once."
    return conditions.make(
        "WorkspaceReady", False, "CloneFailed", f"{text} {found.error}"[:1024], now=now, generation=generation
    )


def _deletions(conn: connection.Connection, state: State, now: datetime) -> tuple[conditions.Condition, ...]:
    """What the last sweep came to; nothing before the first one."""
    last = state.sweep
    if last is None:
        return ()
    at = last.at.strftime("%Y-%m-%dT%H:%M:%SZ")
    if last.outcome == HELD:
        ok, kept = False, last.missing - last.removed
        text = (
            f"{kept} of {last.known} items are not at the source any more: too many to be deleted without a person."
            f" Look at the source; if they are meant to be gone: kubectl jervis resync {conn.metadata.name}"
            f" --confirm {at}"
        )
    elif last.outcome == BROKEN:
        ok, text = False, f"The sweep of {at} broke off, nothing was deleted; it is repeated: {last.message}"
    else:
        ok, text = True, f"Sweep of {at}: {last.removed} of {last.known} items left the source."
    made = conditions.make(
        "DeletionsApplied", ok, last.outcome, text[:1024], now=now, generation=conn.metadata.generation
    )
    return (made,)


def _problems(conn: connection.Connection, file_urls: bool, hosts: Sequence[str]) -> tuple[str, str]:
    """(what is wrong with the URL, which host is not listed); "" for nothing."""
    wrong = _url_problem(conn, file_urls)
    return wrong, "" if wrong else _host_problem(conn, hosts)


def _host_problem(conn: connection.Connection, hosts: Sequence[str]) -> str:
    named = {"spec.url": conn.spec.url, **({"spec.smtp.url": conn.spec.smtp.url} if conn.spec.smtp else {})}
    for field, url in named.items():
        host = urlsplit(url).hostname or ""
        if host and not addresses.listed(host, hosts):
            text = (
                f"{field}: host {host!r} is not among those that Connections may name."
                " An administrator adds it to sources.settings.allowedHosts of the chart."
            )
            return text[:1024]
    return ""


def _url_problem(conn: connection.Connection, file_urls: bool) -> str:
    allowed = None if conn.spec.type in connection.UNCALLED else connection.SCHEMES[conn.spec.type]
    try:
        parts = urlsplit(conn.spec.url)
    except ValueError as error:
        return f"spec.url {conn.spec.url!r} is no URL: {error}."
    if allowed is not None and parts.scheme not in allowed:
        return f"spec.url of type {conn.spec.type.value} must start with {' or '.join(s + '://' for s in allowed)}."
    if parts.scheme == "file" and not file_urls:
        return (
            "spec.url: file:// is not allowed, it names a file of the pod that reads it. Use https:// or ssh://, or set"
            " connections.allowFileUrls of the chart."
        )
    if allowed is not None and parts.scheme != "file" and not parts.hostname:
        return f"spec.url {conn.spec.url!r} names no host."
    return ""
