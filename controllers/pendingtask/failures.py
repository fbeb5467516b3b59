"""Tasks without a decision: their reconciliation repeatedly fails with a bug, or their object cannot be parsed.

Both are recorded in the status, where a person sees them, and not only in the log. The patches are plain values made
from the object as the API serves it, so they do not depend on the code that failed.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog

import kube
from clients import backoff
from controllers import events, metrics, unreadable
from controllers.pendingtask import cache

log = structlog.get_logger(__name__)

MOST_FAILURES = 5
"""Consecutive failures after which a task is handed to a person: about two minutes by `backoff.DISPATCH`."""
INTERNAL = "InternalError"
UNREADABLE = "Unreadable"
_TERMINAL = frozenset({"Done", "Completed", "Error"})
_MOST_CONDITIONS = 16


class Failures:
    """Counts failed reconciliations, and writes the status for a person."""

    def __init__(
        self,
        api: kube.Kube,
        cached: cache.TaskCache,
        *,
        recorder: events.Recorder,
        measured: metrics.Metrics,
        epoch: Callable[[], int],
        wall: Callable[[], datetime],
    ) -> None:
        self._api, self._cache, self._recorder = api, cached, recorder
        self._metrics, self._epoch, self._wall = measured, epoch, wall
        self._failures: dict[str, int] = {}

    def decided(self, uid: str) -> None:
        """A reconciliation succeeded."""
        self._failures.pop(uid, None)

    async def failed(self, uid: str, error: Exception) -> float:
        """A reconciliation failed; returns the seconds until the next one. Every `MOST_FAILURES`-th in a row asks a
        person.

        Never raises: no caller handles an error after this.
        """
        self._metrics.failures.inc()
        count = self._failures[uid] = self._failures.get(uid, 0) + 1
        if count >= MOST_FAILURES and count % MOST_FAILURES == 0:
            try:
                await self._give_up(uid, _place(error))
            except Exception:
                log.exception("handing a task to a person failed", uid=uid)
        return backoff.DISPATCH.delay(count)

    async def report(self, uid: str) -> bool:
        """Write why the object cannot be parsed, unless that is written; False if it can be parsed."""
        raw = self._cache.unreadable.get(uid)
        if raw is None:
            return False
        await self._report(uid, raw)
        if self._cache.unreadable.get(uid) is raw:  # it stays after an error and for a newer version
            del self._cache.unreadable[uid]
        return True

    async def _report(self, uid: str, raw: unreadable.Unreadable) -> None:
        meta, place, why = raw.object["metadata"], raw.field, raw.why
        now = _moment(self._wall())
        message = f"Field: {place}. {why}. Correct the field; until then the task is not served."[:1024]
        accepted = _condition("Accepted", "False", UNREADABLE, message, now, meta.get("generation"))
        listed = list((raw.object.get("status") or {}).get("conditions") or ())
        if any(_says(one, accepted) for one in listed):
            return
        patch = {"conditions": _put(listed, [accepted]), "leaderEpoch": self._epoch()}
        try:
            written = await self._write(meta, patch)
        except (kube.Conflict, kube.NotFound):
            return  # the newer version is reconciled when the watch reports it
        except kube.Refused as error:
            log.error("unreadable task refuses its condition", uid=uid, reason=error.message)
            return
        self._metrics.undecided.labels("unreadable").inc()
        self._recorder.post(written, UNREADABLE, message, warning=True)

    async def _give_up(self, uid: str, where: str) -> None:
        """Phase UserTask, kind Failure. An approval causes another try, from qualification if necessary."""
        entry = self._cache.tasks.entry(uid)
        if entry is None:
            return
        raw = await self._api.get(kube.TASKS, entry.namespace, entry.name)
        meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
        if meta["uid"] != uid or status.get("phase") in _TERMINAL:
            self._cache.forget(uid, 0)
            return
        text = (
            f"The operator could not decide about this task {MOST_FAILURES} times in a row ({where})."
            " Report it with the operator's log; approve another try, or reject to give it up."
        )
        asked = status.get("userTask") or {}
        if status.get("phase") == "UserTask" and (status.get("result") or {}).get("summary") == text:
            return
        at = self._wall()
        now = _moment(at)
        given = spec.get("approval")
        generation = meta.get("generation")
        patch: dict[str, Any] = {
            "phase": "UserTask",
            "phaseTimes": {"UserTask": now},
            "observedGeneration": generation,
            "leaderEpoch": self._epoch(),
            "userTask": {
                **dict.fromkeys(asked),
                "kind": "Failure",
                "requestId": f"run-{status.get('attempt') or 0}-{int(at.timestamp())}",
                "earlierApproval": _digest(given) if given else None,
            },
            "result": {**dict.fromkeys(status.get("result") or {}), "summary": text, "exitReason": "Error"},
            "messagesSeen": len(spec.get("messages") or ()),
            "answersSeen": len(spec.get("answers") or ()),
            **dict.fromkeys(("dispatch", "retry", "preemption")),
        }
        waiting = _condition("WaitingForUser", "True", "Failure", text, now, generation)
        stopped = _condition("Dispatched", "False", INTERNAL, text, now, generation)
        patch["conditions"] = _put(list(status.get("conditions") or ()), [waiting, stopped])
        written = await self._write(meta, patch)
        self._metrics.undecided.labels("failed").inc()
        log.error("task handed to a person", uid=uid, reason=where)
        self._recorder.post(written, INTERNAL, text, warning=True)
        self._cache.take(written)
        self._cache.admit_waiting()

    async def _write(self, meta: Mapping[str, Any], status: dict[str, Any]) -> kube.Object:
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        return await self._api.merge(kube.TASKS, meta["namespace"], meta["name"], patch, "status")


def _place(error: Exception) -> str:
    """Kind and place of an error, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"[:256]


def _digest(approval: Any) -> str:
    """As `user_task.request_digest`: the apiserver has already set the defaults."""
    return hashlib.sha256(orjson.dumps(approval, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _condition(type_: str, status: str, reason: str, message: str, now: str, generation: Any) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
        "observedGeneration": generation or 0,
    }


def _says(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return all(old.get(key) == new[key] for key in ("type", "status", "message", "observedGeneration"))


def _put(old: list[dict[str, Any]], new: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    new = list(new)
    named = {one["type"] for one in new}
    return [*[one for one in old if one.get("type") not in named][: _MOST_CONDITIONS - len(new)], *new]
