"""Which Connection an effect may go to: one of the run's namespace and scope that the operator accepts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pydantic

import kube
from contracts.tokens import runtoken
from crds import connection, errors, scope
from sources.api import problems
from sources.core import limits, secrets
from sources.effects import tools

_UNUSABLE = frozenset({"InvalidURL", "HostNotAllowed", "Suspended"})


class NotJudged(errors.Operational):
    """The operator has not looked at the Connection as it is now."""


class Targets:
    """`api` may read Connections, `read` their Secrets."""

    def __init__(self, api: kube.Kube, read: secrets.Reader | None = None) -> None:
        self._api, self._secrets = api, read or secrets.Reader(api)
        self._buckets: dict[str, tuple[connection.RateLimit, limits.Bucket]] = {}

    async def find(
        self, run: runtoken.Claims, name: str, *, within: Callable[[connection.Spec, scope.Scope], bool] | None = None
    ) -> tools.Target:
        """A Connection that `within` gives to the run's scope; for effects where it is left out. Raises
        `problems.NotFound`, `problems.Forbidden`, `port.Misconfigured`, or `crds.errors.Operational`."""
        conn = await self._connection(run, name, within or _within)
        spec = conn.spec
        main = await self._secrets.read(conn.metadata.namespace, spec.secret_ref)
        reference = spec.smtp.secret_ref if spec.smtp else None
        smtp = main if reference is None else await self._secrets.read(conn.metadata.namespace, reference)
        return tools.Target(conn.metadata.namespace, conn.metadata.name, spec, main, smtp, self._bucket(conn))

    async def listed(self, run: runtoken.Claims) -> list[connection.Connection]:
        """The Connections of the run's namespace and scope, also one that is not accepted: an effect there says why.
        Raises `crds.errors.Operational`."""
        listed: list[connection.Connection] = []
        async for raw in self._api.each(kube.CONNECTIONS, run.namespace):
            with contextlib.suppress(pydantic.ValidationError):
                conn = connection.Connection.model_validate(raw)
                if _within(conn.spec, run.scope):
                    listed.append(conn)
        return listed

    async def _connection(
        self, run: runtoken.Claims, name: str, within: Callable[[connection.Spec, scope.Scope], bool]
    ) -> connection.Connection:
        absent = problems.NotFound(
            f"namespace {run.namespace} has no Connection {name!r} of this run's scope",
            field="connection",
            remedy="Name one of the task's namespace, client and project.",
        )
        try:
            conn = connection.Connection.model_validate(await self._api.get(kube.CONNECTIONS, run.namespace, name))
        except kube.NotFound:
            raise absent from None
        except kube.Forbidden as error:
            raise NotJudged(f"Connection {name!r} cannot be read: {error.message}") from error
        except pydantic.ValidationError as error:
            raise problems.Forbidden(f"Connection {name!r} cannot be read", field="connection") from error
        if not within(conn.spec, run.scope):
            raise absent
        judge(conn)
        return conn

    def hidden(self, text: str) -> str:
        """The text without the values of Secrets."""
        return self._secrets.hidden(text)

    def _bucket(self, conn: connection.Connection) -> limits.Bucket:
        wanted, uid = conn.spec.rate_limit or connection.RateLimit(), conn.metadata.uid
        known = self._buckets.get(uid)
        if known is None or known[0] != wanted:
            known = self._buckets[uid] = (wanted, limits.Bucket(wanted.requests_per_minute, wanted.burst))
        return known[1]


def judge(conn: connection.Connection) -> None:
    """Raises `problems.Forbidden` for a Connection that is suspended, being deleted, or not accepted; `NotJudged`."""
    by_type = {condition.type: condition for condition in conn.status.conditions}
    ready, credentials = by_type.get("Ready"), by_type.get("CredentialsValid")
    if conn.spec.suspend or conn.metadata.deletion_timestamp is not None:
        raise problems.Forbidden(
            f"Connection {conn.metadata.name} is suspended or being deleted",
            field="connection",
            remedy=f"kubectl jervis resume connection/{conn.metadata.name} lets it act again.",
        )
    if ready is None or credentials is None or ready.observed_generation != conn.metadata.generation:
        raise NotJudged(f"the operator has not judged Connection {conn.metadata.name} yet", retry_after=5.0)
    # Where an object is not accepted, the operator gives both conditions the same reason.
    stopped = ready.status == "False" and ready.reason in (*_UNUSABLE, credentials.reason)
    logins = (credentials, by_type.get("SendingReady"))
    failed = [condition for condition in logins if condition is not None and condition.status == "False"]
    if stopped or failed:
        why = (failed or [ready])[0]
        raise problems.Forbidden(
            f"Connection {conn.metadata.name} is not accepted ({why.reason}): {why.message}",
            field="connection",
            remedy=f"kubectl describe connection {conn.metadata.name} -n {conn.metadata.namespace} says what to do.",
        )


def _within(spec: connection.Spec, own: scope.Scope) -> bool:
    """A Connection of the client as a whole is for all its projects; one of a project or group for that alone."""
    return (
        spec.client_id == own.client_id
        and spec.project_id in ("", own.project_id)
        and spec.group_id in ("", own.group_id)
    )
