"""The shell of Connection: conditions, written when they say something new."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pydantic
import structlog

import kube
from clients import backoff
from controllers import admission, metrics, queue, unreadable
from controllers.connection import credentials, decide, gauges, polling
from controllers.connection.credentials import Finding
from crds import connection, errors
from kube import lease
from sources.core.state import State

log = structlog.get_logger(__name__)

AWAY_SECONDS = 2.0
FAULT_SECONDS = 60.0


class Connections:
    """All Connections by uid. `admitted` knows what namespaces may have, None: anything."""

    def __init__(
        self,
        api: kube.Kube,
        *,
        work: queue.WorkQueue[str],
        measured: metrics.Metrics,
        leadership: lease.Lease,
        admitted: admission.Admission | None = None,
        file_urls: bool = False,
        hosts: Sequence[str] = (),
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._api, self._work, self._metrics, self._lease = api, work, measured, leadership
        self._wall, self._monotonic, self._file_urls = wall, monotonic, file_urls
        self._hosts, self._admission = tuple(hosts), admitted
        self._known: dict[str, connection.Connection] = {}
        self._failures: dict[str, int] = {}
        self._unreadable: dict[str, unreadable.Unreadable] = {}
        """By uid: objects that cannot be parsed, until that is written into them."""
        self._unread: set[str] = set()
        """The uids of all that cannot be parsed: they are there, and their cursors are kept."""
        self.polling: polling.Polling | None = None
        """None: no sources are polled."""

    def known(self, namespace: str | None) -> Iterator[kube.Object]:
        """The Connections of a namespace, None for all, as much of them as a deletion needs."""
        for uid, one in self._known.items():
            meta = one.metadata
            if namespace in (None, meta.namespace):
                yield {
                    "metadata": {
                        "uid": uid,
                        "namespace": meta.namespace,
                        "name": meta.name,
                        "resourceVersion": meta.resource_version,
                    }
                }

    def version(self, uid: str) -> int | None:
        """The resourceVersion that is known."""
        known = self._known.get(uid)
        return None if known is None else int(known.metadata.resource_version)

    def leave(self, uid: str) -> None:
        """The Connection is deleted, or served no more for now."""
        self._known.pop(uid, None)
        self._unread.discard(uid)
        self._unreadable.pop(uid, None)
        self._failures.pop(uid, None)
        self._work.forget(uid)

    def __contains__(self, uid: object) -> bool:
        return uid in self._known or uid in self._unread

    def find(self, namespace: str, name: str) -> connection.Connection | None:
        """The Connection of that name, as last seen."""
        every = (
            one for one in self._known.values() if (one.metadata.namespace, one.metadata.name) == (namespace, name)
        )
        return next(every, None)

    async def absent(self, namespace: str, name: str, uid: str) -> bool | None:
        """Whether there is no such Connection in the cluster; None: this operator may not look there. Raises
        `Operational`."""
        try:
            found = await self._api.get(kube.CONNECTIONS, namespace, name)
        except kube.NotFound:
            return True
        except kube.Forbidden:
            return None
        return bool(found["metadata"]["uid"] != uid)

    def state_changed(self, uid: str) -> None:
        """The sources process has written something new about it."""
        conn = self._known.get(uid)
        if conn is not None:
            self._work.put(uid, (conn.metadata.name,))

    def observe(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a Connection."""
        uid = raw["metadata"]["uid"]
        if deleted:
            self.leave(uid)
        elif self._take(raw):
            self._work.put(uid, (raw["metadata"]["name"],))

    def gauges(self) -> None:
        """Bring the gauges up to date; called before a scrape."""
        gauges.update(self._metrics, self._known.values(), self._wall(), polls=self.polling is not None)

    def limits_changed(self, namespace: str) -> None:
        """The namespace may have a client that it could not have before, or the other way round."""
        for raw in self.known(namespace):
            self._work.put(raw["metadata"]["uid"], (raw["metadata"]["name"],))

    async def work(self) -> None:
        """One worker: until cancelled."""
        while True:
            uid = await self._work.get()
            try:
                await self._reconcile(uid)
            except errors.JervisError as error:
                log.info("connection not reconciled", reason=error.message)
                self._work.wake(uid, (uid,), self._monotonic() + AWAY_SECONDS)
            except Exception:
                # The edge of a reconciliation: one object that triggers a bug of ours must not stop the others.
                self._metrics.failures.inc()
                log.exception("reconciliation of a connection failed")
                self._work.wake(uid, (uid,), self._monotonic() + FAULT_SECONDS)
            finally:
                self._work.done(uid)

    async def _reconcile(self, uid: str) -> None:
        if uid in self._unreadable:
            await self._report(uid, self._unreadable[uid])
        if uid in self._unread and self.polling is not None:
            await self.polling.rest(uid)
        conn = self._known.get(uid)
        if conn is None:
            return
        found = await self._credentials(conn)
        if self._known.get(uid) is not conn:
            return  # it changed meanwhile, and is in the queue again
        self._failures[uid] = 0 if found.ok is not False else self._failures.get(uid, 0) + 1
        sending = await self._sending(conn, found)
        state = await self._poll(conn, found)
        patch = decide.patch(
            conn,
            found,
            self._wall(),
            file_urls=self._file_urls,
            hosts=self._hosts,
            state=state,
            sending=sending,
            holder=self.polling.holder(uid) if self.polling is not None else "",
        )
        if patch:
            await self._write(conn, patch)
        late = state and decide.late_at(conn, state)
        if late and uid in self._known and late > self._wall():
            pause = (late - self._wall()).total_seconds()
            self._work.wake(uid, (conn.metadata.name,), self._monotonic() + pause)
        if conn.spec.secret_ref is not None and uid in self._known:
            # Secrets are in no watch: most of them are none of our business.
            delay = backoff.SECRET.delay(self._failures[uid]) if found.ok is False else backoff.SECRET.cap
            self._work.wake(uid, (conn.metadata.name,), self._monotonic() + delay)

    async def _poll(self, conn: connection.Connection, found: Finding) -> State | None:
        """Have it polled or not; what that came to until now. Raises `Operational`."""
        if self.polling is None:
            return None
        if decide.accepted(conn, found, file_urls=self._file_urls, hosts=self._hosts):
            await self.polling.want(conn)
        else:
            await self.polling.rest(conn.metadata.uid)
        return self.polling.state(conn.metadata.uid)

    async def _report(self, uid: str, found: unreadable.Unreadable) -> None:
        """Write why the object cannot be parsed. What is newer than it comes with an event."""
        meta, status = found.object["metadata"], found.status(self._wall())
        body = {
            "metadata": {"resourceVersion": meta["resourceVersion"]},
            "status": {**status, "leaderEpoch": self._lease.epoch},
        }
        try:
            if status:
                await self._api.merge(kube.CONNECTIONS, meta["namespace"], meta["name"], body, "status")
        except (kube.Conflict, kube.NotFound):
            pass  # the newer version is looked at when the watch reports it
        except kube.Refused as error:
            log.error("unreadable connection refuses its condition", connection=meta["name"], reason=error.message)
        if self._unreadable.get(uid) is found:
            del self._unreadable[uid]

    async def _credentials(self, conn: connection.Connection) -> Finding:
        """What can be said about them without using them. Those of a client that the namespace may not have are not
        read."""
        reference, namespace = conn.spec.secret_ref, conn.metadata.namespace
        refused = self._admission and self._admission.refuses_client(namespace, conn.spec.client_id)
        if refused:
            return credentials.refused(refused)
        if reference is None:
            return credentials.unneeded(conn.spec)
        try:
            raw = await self._api.get(kube.SECRETS, namespace, reference.name)
        except kube.NotFound:
            return credentials.absent(reference.name, namespace)
        except kube.Forbidden:
            return credentials.unreadable(reference.name, namespace)
        return credentials.of_keys(conn.spec, raw.get("data") or {})

    async def _sending(self, conn: connection.Connection, found: credentials.Finding) -> credentials.Finding | None:
        """What can be said about the login of spec.smtp; None without one, and where no Secret is read at all."""
        smtp = conn.spec.smtp
        reference = smtp and (smtp.secret_ref or conn.spec.secret_ref)
        if not reference or found.stops:
            return None
        try:
            raw = await self._api.get(kube.SECRETS, conn.metadata.namespace, reference.name)
        except kube.NotFound:
            return credentials.absent(reference.name, conn.metadata.namespace, field="spec.smtp.secretRef")
        except kube.Forbidden:
            return credentials.unreadable(reference.name, conn.metadata.namespace)
        return credentials.of_login(reference.name, raw.get("data") or {})

    async def _write(self, conn: connection.Connection, patch: dict[str, Any]) -> None:
        meta = conn.metadata
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": {**patch, "leaderEpoch": self._lease.epoch},
        }
        try:
            self._take(await self._api.merge(kube.CONNECTIONS, meta.namespace, meta.name, body, "status"))
        except kube.Conflict:
            self._metrics.conflicts.inc()
            self._take(await self._api.get(kube.CONNECTIONS, meta.namespace, meta.name))
            raise
        except kube.NotFound:
            self._known.pop(meta.uid, None)

    def _take(self, raw: kube.Object) -> bool:
        uid = raw["metadata"]["uid"]
        known = self._known.get(uid)
        if known is not None and int(raw["metadata"]["resourceVersion"]) <= int(known.metadata.resource_version):
            return False
        name = raw["metadata"]["name"]
        try:
            self._known[uid] = connection.Connection.model_validate(raw)
        except pydantic.ValidationError as error:
            found = unreadable.Unreadable.of(raw, error)
            log.error("connection cannot be read", connection=name, field=found.field, error=found.why)
            self.leave(uid)
            self._unreadable[uid] = found
            self._unread.add(uid)
            self._work.put(uid, (name,))
            return False
        self._unread.discard(uid)
        self._unreadable.pop(uid, None)
        return True
