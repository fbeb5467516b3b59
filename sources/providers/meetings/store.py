"""Meetings in MongoDB: one document each, one for its transcript, the recording in GridFS (`audio`).

Every change names the state (and the attempt) that it starts from, so of two writers one finds nothing to change.
"""

from __future__ import annotations

import hmac
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from clients.mongo import AFTER, ASCENDING, DESCENDING, Duplicate, translate_errors
from contracts import mongo_collections
from contracts.api import meeting
from contracts.api.meeting import Correction, State
from crds import connection, scope
from sources.api import problems
from sources.core import assignments

MOST_ATTEMPTS = 3
"""Transcriptions of one recording that fail or vanish; a person may ask for as many again."""
AGAIN = timedelta(minutes=1)
Row = Mapping[str, Any]
_CORRECTING = timedelta(minutes=10)
_REASON_CHARS = 512
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unknown(problems.NotFound):
    """There is no such meeting, Connection or recording."""


class Unfit(problems.Conflict):
    """It is not in a state in which this makes sense."""


@dataclass(frozen=True, slots=True)
class Place:
    """A Connection of type Meeting, as the operator has it polled."""

    uid: str
    namespace: str
    name: str
    owner: scope.Scope


class Meetings:
    """`database` is one of `mongo.client`. Every method raises `mongo.Unavailable`."""

    def __init__(self, database: Any) -> None:
        self._rows, self._told = database[mongo_collections.MEETINGS], database[mongo_collections.TRANSCRIPTS]
        self._connections, self._items = database[assignments.CONNECTIONS], database[assignments.ITEMS]

    async def prepare(self) -> None:
        """Make the indexes."""
        with translate_errors("make an index"):
            await self._rows.create_index([("state", ASCENDING), ("retryAt", ASCENDING)])
            await self._rows.create_index([("clientId", ASCENDING), ("createdAt", DESCENDING)])
            await self._rows.create_index([("namespace", ASCENDING), ("connection", ASCENDING), ("state", ASCENDING)])

    # -- the API's side --------------------------------------------------------------------------------------------

    async def place(self, namespace: str, name: str, allows: Callable[[scope.Scope], bool] = lambda _: True) -> Place:
        """The Connection of that name, where the caller may write. Raises `Unknown`, `Unfit`."""
        with translate_errors("look for a Connection"):
            row = await self._connections.find_one({"namespace": namespace, "name": name, "wanted": True})
        spec = None if row is None else connection.Spec.model_validate(row["spec"])
        # A caller that may not write there does not learn what is there.
        if row is None or spec is None or not allows(_scope(spec)):
            raise Unknown(
                f"No Connection {name!r} in namespace {namespace!r} is polled and yours to write to.",
                field="connection",
                remedy="Name one of type Meeting that is Ready: kubectl get connections",
            )
        if spec.type is not connection.Type.MEETING:
            raise Unfit(
                f"Connection {name!r} is of type {spec.type.value}.",
                field="connection",
                remedy="Name one of type Meeting.",
            )
        return Place(row["_id"], namespace, name, _scope(spec))

    async def create(self, draft: meeting.Draft, place: Place, now: datetime) -> Row:
        """A new meeting without a recording. Raises `Unfit` for another client than the Connection's."""
        for field, said, has in (
            ("clientId", draft.client_id, place.owner.client_id),
            ("projectId", draft.project_id, place.owner.project_id),
        ):
            if said and said != has:
                raise Unfit(
                    f"{field} {said!r} is not that of Connection {place.name!r}.", field=field, remedy="Leave it out."
                )
        row = {
            "_id": uuid.uuid4().hex,
            **draft.model_dump(by_alias=True, exclude={"client_id", "project_id"}),
            "participants": [one for one in draft.participants if one],
            **place.owner.model_dump(by_alias=True),
            "connectionUid": place.uid,
            "state": State.RECORDING.value,
            "createdAt": now,
            "offset": 0,
            "attempt": 0,
            "tries": 0,
            "retryAt": _EPOCH,
        }
        with translate_errors("keep a meeting"):
            await self._rows.insert_one(row)
        return row

    async def get(self, meeting_id: str) -> Row:
        """Raises `Unknown`."""
        with translate_errors("look for a meeting"):
            row: Row | None = await self._rows.find_one({"_id": meeting_id})
        if row is None:
            raise absent(meeting_id)
        return row

    async def listed(self, wanted: Mapping[str, Any], limit: int, allows: Callable[[scope.Scope], bool]) -> list[Row]:
        """Those that the caller may see, the newest first."""
        found: list[Row] = []
        with translate_errors("list meetings"):
            async for row in self._rows.find(dict(wanted)).sort([("createdAt", DESCENDING), ("_id", DESCENDING)]):
                if allows(owner(row)):
                    found.append(row)
                if len(found) == limit:
                    break
        return found

    async def retry(self, meeting_id: str) -> Row:
        """Have a failed one transcribed again. Raises `Unfit`, `Unknown`."""
        again = {"state": State.UPLOADED.value, "tries": 0, "reason": "", "retryAt": _EPOCH}
        with translate_errors("write a meeting"):
            row: Row | None = await self._rows.find_one_and_update(
                {"_id": meeting_id, "state": State.FAILED.value}, {"$set": again}, return_document=AFTER
            )
        if row is not None:
            return row
        state = (await self.get(meeting_id))["state"]
        raise Unfit(f"The meeting is {state}.", field="state", remedy="Only a FAILED one is tried again.")

    async def drop(self, meeting_id: str) -> None:
        """Forget the meeting and its transcript; its recording goes before (`audio.Audio.delete`)."""
        with translate_errors("forget a meeting"):
            await self._told.delete_one({"_id": meeting_id})
            await self._rows.delete_one({"_id": meeting_id})

    async def told(self, meeting_id: str) -> meeting.Told | None:
        """Its transcript, None while there is none."""
        with translate_errors("read a transcript"):
            row = await self._told.find_one({"_id": meeting_id})
        return None if row is None else meeting.Told.model_validate(row["told"])

    # -- the operator's side ---------------------------------------------------------------------------------------

    async def queued(self, now: datetime) -> list[str]:
        """The namespaces that have recordings to be transcribed."""
        with translate_errors("list meetings"):
            found: list[str] = await self._rows.distinct("namespace", _due(now))
        return sorted(found)

    async def waiting(self, limit: int, now: datetime, namespace: str = "") -> list[Row]:
        """Recordings that are to be transcribed, the longest waiting first; of all namespaces, or of one."""
        wanted = {**_due(now), **({"namespace": namespace} if namespace else {})}
        with translate_errors("list meetings"):
            return [row async for row in self._rows.find(wanted).sort("createdAt", ASCENDING).limit(limit)]

    async def transcribing(self) -> list[Row]:
        """Those that a Job works on."""
        with translate_errors("list meetings"):
            return [row async for row in self._rows.find({"state": State.TRANSCRIBING.value})]

    async def begin(self, row: Row, namespace: str) -> Row | None:
        """Start its next attempt, whose Job is made after this; None: another process changed it meanwhile.

        The token of the attempt opens its recording and takes its transcript, and nothing else.
        """
        attempt = int(row["attempt"]) + 1
        said = {
            "state": State.TRANSCRIBING.value,
            "attempt": attempt,
            "token": secrets.token_urlsafe(meeting.SHORTEST_TOKEN),
            "job": job_name(row["_id"], attempt),
            "jobNamespace": namespace,
            "jobMade": False,
        }
        with translate_errors("write a meeting"):
            found: Row | None = await self._rows.find_one_and_update(
                {"_id": row["_id"], "state": State.UPLOADED.value, "attempt": row["attempt"]},
                {"$set": said},
                return_document=AFTER,
            )
        return found

    async def made(self, row: Row) -> None:
        """Its Job exists: from now on one that is not found has vanished."""
        with translate_errors("write a meeting"):
            await self._rows.update_one(_attempt(row), {"$set": {"jobMade": True}})

    async def missed(self, row: Row, reason: str, now: datetime, *, permanent: bool = False) -> State:
        """The attempt came to nothing: once more, or FAILED after `MOST_ATTEMPTS` of them; the state then."""
        tries = int(row.get("tries", 0)) + 1
        state = State.FAILED if permanent or tries >= MOST_ATTEMPTS else State.UPLOADED
        said = {
            "state": state.value,
            "reason": reason[:_REASON_CHARS],
            "tries": tries,
            "retryAt": now + AGAIN * tries,
            "token": "",
        }
        with translate_errors("write a meeting"):
            await self._rows.update_one(_attempt(row), {"$set": said})
        return state

    # -- the pod's side --------------------------------------------------------------------------------------------

    async def opened(self, meeting_id: str, token: str) -> Row:
        """The meeting that a pod's token opens. Raises `Unknown` for every other token."""
        with translate_errors("look for a meeting"):
            row: Row | None = await self._rows.find_one({"_id": meeting_id, "state": State.TRANSCRIBING.value})
        has = str((row or {}).get("token") or "")
        if row is None or len(has) < meeting.SHORTEST_TOKEN or not hmac.compare_digest(has.encode(), token.encode()):
            raise Unknown("The meeting is not being transcribed under this token.")
        return row

    async def transcribed(self, row: Row, transcript: meeting.Transcript, correct: bool) -> None:
        """Keep what its pod heard. Raises `Unknown` if the attempt is over."""
        told = meeting.Told(transcript=transcript).model_dump(mode="json", by_alias=True)
        said = {
            "state": State.TRANSCRIBED.value,
            "reason": "",
            "token": "",
            "correction": (Correction.PENDING if correct else Correction.OFF).value,
            "correctUntil": _EPOCH,
        }
        kept = {"told": told, "attempt": row["attempt"]}
        with translate_errors("keep a transcript"):
            # The transcript first: a meeting that is TRANSCRIBED has one. That of this attempt or of a later one, which
            # may have come while this was on its way, stays.
            with suppress(Duplicate):
                earlier = {"_id": row["_id"], "attempt": {"$lt": row["attempt"]}}
                await self._told.replace_one(earlier, kept, upsert=True)
            done = await self._rows.update_one(_attempt(row), {"$set": said})
            if not done.matched_count and await self._rows.find_one({"_id": row["_id"]}, {"_id": 1}) is None:
                # The meeting was deleted meanwhile.
                await self._told.delete_one({"_id": row["_id"]})
        if not done.matched_count:
            raise Unknown("The attempt is over.")

    # -- the worker's side -----------------------------------------------------------------------------------------

    async def correct(self, now: datetime) -> Row | None:
        """Claim a transcript whose correction is pending; None: there is none."""
        wanted = {
            "state": State.TRANSCRIBED.value,
            "correction": Correction.PENDING.value,
            "correctUntil": {"$lte": now},
        }
        with translate_errors("claim a transcript"):
            found: Row | None = await self._rows.find_one_and_update(
                wanted,
                {"$set": {"correctUntil": now + _CORRECTING}, "$inc": {"correctTries": 1}},
                return_document=AFTER,
            )
        return found

    async def renew(self, row: Row, now: datetime) -> Row | None:
        """Keep the claim on a transcript for another while; None: it is lost."""
        with translate_errors("claim a transcript"):
            found: Row | None = await self._rows.find_one_and_update(
                _claimed(row), {"$set": {"correctUntil": now + _CORRECTING}}, return_document=AFTER
            )
        return found

    async def later(self, row: Row, reason: str, now: datetime) -> None:
        """Correct it in a while: the model or the knowledge base does not answer."""
        said = {"correctUntil": now + AGAIN, "correctionReason": reason[:_REASON_CHARS]}
        with translate_errors("give a transcript back"):
            await self._rows.update_one(_claimed(row), {"$set": said})

    async def corrected(self, row: Row, told: meeting.Told | None, reason: str = "") -> None:
        """Keep its correction; None: there is none, because of `reason`, and what was heard is indexed."""
        state = Correction.FAILED if told is None else Correction.DONE
        said = {
            "correction": state.value,
            "correctionReason": reason[:_REASON_CHARS],
            "changes": 0 if told is None else len(told.changes),
        }
        with translate_errors("keep a correction"):
            if told is not None:
                whole = told.model_dump(mode="json", by_alias=True)
                await self._told.update_one({"_id": row["_id"]}, {"$set": {"told": whole}})
            await self._rows.update_one(_claimed(row), {"$set": said})

    async def due(self, row: Row) -> None:
        """Have its Connection polled now."""
        named = {"namespace": row["namespace"], "name": row["connection"], "wanted": True}
        with translate_errors("write the next poll"):
            await self._connections.update_one(named, {"$set": {"pollAt": _EPOCH}})

    async def index(self) -> int:
        """Note which transcribed meetings have their task; how many."""
        count = 0
        with translate_errors("list meetings"):
            async for row in self._rows.find({"state": State.TRANSCRIBED.value}, {"_id": 1}):
                item = await self._items.find_one({"sourceId": row["_id"], "state": "Indexed"}, {"task": 1})
                if item is not None:
                    said = {"state": State.INDEXED.value, "task": item["task"]}
                    one = {"_id": row["_id"], "state": State.TRANSCRIBED.value}
                    count += (await self._rows.update_one(one, {"$set": said})).modified_count
        return count

    # -- the source's side -----------------------------------------------------------------------------------------

    async def ready(self, of: Place, after: str, limit: int) -> list[Row]:
        """Transcribed meetings of a Connection, whose correction has ended, by id."""
        settled = [one.value for one in Correction if one is not Correction.PENDING]
        wanted = {
            **_of(of),
            "state": State.TRANSCRIBED.value,
            "correction": {"$in": settled},
            "_id": {"$gt": after},
        }
        with translate_errors("list meetings"):
            return [row async for row in self._rows.find(wanted).sort("_id", ASCENDING).limit(limit)]

    async def ids(self, of: Place, states: Sequence[State], after: str, limit: int) -> list[str]:
        """Ids of a Connection's meetings in these states, in order."""
        wanted = {
            **_of(of),
            "state": {"$in": [one.value for one in states]},
            "_id": {"$gt": after},
        }
        with translate_errors("list meetings"):
            rows = self._rows.find(wanted, {"_id": 1}).sort("_id", ASCENDING).limit(limit)
            return [row["_id"] async for row in rows]


def job_name(meeting_id: str, attempt: int) -> str:
    """Of the Job of an attempt: two creations of one attempt meet in it."""
    return f"transcribe-{meeting_id}-{attempt}"


def absent(meeting_id: str) -> Unknown:
    """For one that there is not, or that the caller may not see."""
    return Unknown(f"There is no meeting {meeting_id!r}.", field="id", remedy="GET /api/v1/meetings lists them.")


def _scope(spec: connection.Spec) -> scope.Scope:
    return scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id)


def owner(row: Row) -> scope.Scope:
    """Whose meeting it is."""
    return scope.Scope(client_id=row["clientId"], project_id=row["projectId"], group_id=row["groupId"])


def shown(row: Row) -> meeting.Meeting:
    """The meeting as the API shows it."""
    return meeting.Meeting.model_validate({**row, "id": row["_id"], "bytes": row["offset"]})


def _of(place: Place) -> dict[str, str]:
    """The meetings of a Connection, and of an earlier one of the same name that had the same scope."""
    return {"namespace": place.namespace, "connection": place.name, **place.owner.model_dump(by_alias=True)}


def _due(now: datetime) -> dict[str, Any]:
    return {"state": State.UPLOADED.value, "retryAt": {"$lte": now}}


def _claimed(row: Row) -> dict[str, Any]:
    return {"_id": row["_id"], "state": State.TRANSCRIBED.value, "correctUntil": row["correctUntil"]}


def _attempt(row: Row) -> dict[str, Any]:
    return {"_id": row["_id"], "state": State.TRANSCRIBING.value, "attempt": row["attempt"]}
