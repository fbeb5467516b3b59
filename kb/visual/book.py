"""What is kept of pages in MongoDB: `kb_page_works`, one row for each document that has pages or waits for them, and
`kb_pages`, one for each page with its layout and all of its vectors.

A row of work is claimed by an id of the claim and by moving `nextAt` into the future; a process that dies leaves it to
the next one then. Who makes pages asks `alive` before each write and reports `progress` after it: a newer version, a
deletion or another claim has taken the row away.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from crds import scope
from kb import api, mongo, visibility
from kb.erasure import closed
from kb.files import pages
from kb.visual import maxsim, model

WORKS = "kb_page_works"
PAGES = "kb_pages"
_OWNER = {"clientId": 1, "projectId": 1, "groupId": 1}
_STORED = {"documentId": 1, "workId": 1, **_OWNER}
WAITING, DONE, FAILED = "Waiting", "Done", "Failed"


def _random() -> str:
    return uuid.uuid4().hex


class Book:
    """Raises `kb.errors.Away`. `patience`: how long a claim holds without a sign of life. `ids` names claims."""

    def __init__(
        self,
        database: mongo.Database,
        clock: Callable[[], datetime],
        *,
        patience: timedelta = timedelta(minutes=10),
        ids: Callable[[], str] = _random,
    ) -> None:
        self._works = database[WORKS]
        self._pages = database[PAGES]
        self._clock = clock
        self._patience = patience
        self._ids = ids
        self._indexed = False

    async def open(self, source: model.Source, file: api.ContentRef | None) -> None:
        """Have pages made of a document's version; one that is made, or waits, of the same file stays as it is, and
        one that failed is gone on with."""
        now = self._clock()
        with mongo.translated():
            await self._index()
            known = await self._works.find_one({"_id": source.document_id})
            failed = known is not None and known["state"] == FAILED
            # One that failed after all was drawn is drawn anew: an image may be what is missing.
            if known is not None and known["workId"] == source.id and not (failed and known["file"] is None):
                await self._works.update_one({"_id": source.document_id}, {"$set": mongo.names(source.owner)})
                if failed:
                    await self.again(_work(known))
                return
            row = {
                **_source(source),
                "state": WAITING,
                "model": "",
                "file": _reference(file),
                "count": 0,
                "done": 0,
                "attempts": 0,
                "pauses": 0,
                "waits": "",
                "claim": "",
                "nextAt": now,
                "problems": [],
                "updatedAt": now,
            }
            await self._works.update_one({"_id": source.document_id}, {"$set": row}, upsert=True)

    async def again(self, work: model.Work) -> bool:
        """Take up what is done or failed: what lacks the vectors of the present model is embedded from its image, and
        what was not drawn is drawn; False when the row has changed meanwhile."""
        fresh: dict[str, Any] = {"state": WAITING, "attempts": 0, "pauses": 0, "claim": "", "nextAt": self._clock()}
        if work.state == FAILED:
            fresh["problems"] = []
        with mongo.translated():
            done = await self._works.update_one(
                {"_id": work.source.document_id, "workId": work.source.id, "state": work.state}, {"$set": fresh}
            )
        return int(done.matched_count) == 1

    async def claim(self) -> model.Work | None:
        """The work that has waited longest, now of the caller for `patience`; None when none waits.

        Each claim counts as an attempt, until `alive` reports progress or `later` gives it back.
        """
        now = self._clock()
        with mongo.translated():
            await self._index()
            row = await self._works.find_one_and_update(
                {"state": WAITING, "nextAt": {"$lte": now}},
                {"$set": {"nextAt": now + self._patience, "claim": self._ids()}, "$inc": {"attempts": 1}},
                sort=[("nextAt", 1)],
                return_document=mongo.AFTER,
            )
        return None if row is None else _work(row)

    async def alive(self, work: model.Work) -> scope.Scope | None:
        """Whose the document is now, where the work is still wanted and the caller's; it stays so for `patience`."""
        return await self._change(work, {"nextAt": self._clock() + self._patience})

    async def progress(self, work: model.Work, **known: Any) -> scope.Scope | None:
        """As `alive`, with what is known of it now: `count`, `done`, or `file=None` when all of it is drawn."""
        said = {"nextAt": self._clock() + self._patience, "attempts": 1, "pauses": 0, "waits": "", **known}
        return await self._change(work, said)

    async def finish(self, work: model.Work, visual_model: str, problems: Sequence[str]) -> bool:
        """All pages are made. False when the work is not wanted any more."""
        said = {"state": DONE, "model": visual_model, "problems": list(problems)[:50], "file": None}
        return await self._change(work, {**said, "nextAt": None, "waits": "", "claim": ""}) is not None

    async def later(self, work: model.Work, at: datetime, reason: str) -> None:
        """Something is away: it is tried again then, and this was no attempt."""
        said = {"nextAt": at, "waits": reason[:500], "claim": ""}
        await self._change(work, said, {"attempts": -1, "pauses": 1})

    async def fail(self, work: model.Work, reason: str) -> bool:
        """It cannot be done. The file stays, for `again`. False when the work is not wanted any more."""
        said = {"state": FAILED, "problems": [reason[:500]], "nextAt": None, "waits": "", "claim": ""}
        return await self._change(work, said) is not None

    async def find(self, document_id: str) -> model.Work | None:
        """The work of a document."""
        with mongo.translated():
            row = await self._works.find_one({"_id": document_id})
        return None if row is None else _work(row)

    async def works(self, document_ids: Collection[str]) -> dict[str, model.Work]:
        """Those of some documents, by their ids."""
        with mongo.translated():
            rows = self._works.find({"_id": {"$in": list(document_ids)}})
            return {row["_id"]: _work(row) async for row in rows}

    async def listed(self, client_id: str, *, after: str = "", limit: int = 200) -> list[model.Work]:
        """The works of a client, in order of their documents' ids, those after `after`."""
        query = {"clientId": client_id, "_id": {"$gt": after}}
        with mongo.translated():
            return [_work(row) async for row in self._works.find(query).sort("_id", 1).limit(limit)]

    async def clients(self) -> list[str]:
        """The clients that have works or pages."""
        with mongo.translated():
            found = {*await self._works.distinct("clientId"), *await self._pages.distinct("clientId")}
        return sorted(found)

    async def waiting(self) -> dict[str, int]:
        """How many works there are in each state."""
        with mongo.translated():
            return {state: int(await self._works.count_documents({"state": state})) for state in (WAITING, FAILED)}

    async def put(self, made: Sequence[model.Page]) -> None:
        """Insert or overwrite."""
        if made:
            rows = [_row(one) for one in made]
            with mongo.translated():
                await self._pages.bulk_write([mongo.Replace({"_id": row["_id"]}, row, upsert=True) for row in rows])

    async def pages(self, viewer: scope.Scope, page_ids: Collection[str]) -> dict[str, model.Page]:
        """Those of the pages that lie where the viewer sees, with their layouts and without their vectors."""
        found = await self._found({"_id": {"$in": list(page_ids)}}, {"vectors": 0})
        return {one.id: one for one in found if visibility.sees(viewer, one.source.owner)}

    async def any(self, viewer: scope.Scope) -> bool:
        """Whether one lies where the viewer sees."""
        with mongo.translated():
            # By the index whose first field is the client.
            return await self._pages.find_one(mongo.visible(viewer), {"_id": 1}) is not None

    async def vectors(
        self, viewer: scope.Scope, page_ids: Sequence[str], visual_model: str, *, budget: int
    ) -> dict[str, model.Array]:
        """All vectors of this model of these pages, in this order, until they have `budget` bytes as they are
        stored."""
        found: dict[str, model.Array] = {}
        spent, step, at = 0, 8, 0
        with mongo.translated():
            while at < len(page_ids) and spent < budget:
                some = list(page_ids[at : at + step])
                # By ids alone, which every server looks up; whose they are is looked at here.
                async for row in self._pages.find({"_id": {"$in": some}}, {"vectors": 1, "model": 1, **_OWNER}):
                    spent += len(row["vectors"])
                    if row["model"] == visual_model and visibility.sees(viewer, mongo.owner(row)):
                        found[row["_id"]] = maxsim.unpack(row["vectors"])
                at += len(some)
                # As many more as fit, as far as those before tell.
                step = max(1, min(128, int((budget - spent) / max(spent / at, 1))))
        return found

    async def without(self, work_id: str, visual_model: str) -> list[str]:
        """Ids of its pages that have no vectors of this model, in order."""
        query = {"workId": work_id, "model": {"$ne": visual_model}}
        with mongo.translated():
            rows = [(row["number"], row["_id"]) async for row in self._pages.find(query, {"number": 1})]
        return [page_id for _, page_id in sorted(rows)]

    async def page_ids(self, client_id: str, *, after: str = "", limit: int = 500) -> list[model.Stored]:
        """The pages of a client, in order of their ids, those after `after`."""
        query = {"clientId": client_id, "_id": {"$gt": after}}
        with mongo.translated():
            rows = self._pages.find(query, _STORED).sort("_id", 1).limit(limit)
            return [_stored(row) async for row in rows]

    async def stored(self, page_ids: Collection[str]) -> dict[str, model.Stored]:
        """Those of the given pages that are stored, of any owner, without their layouts."""
        with mongo.translated():
            rows = self._pages.find({"_id": {"$in": list(page_ids)}}, _STORED)
            return {row["_id"]: _stored(row) async for row in rows}

    async def page_works(self, page_ids: Collection[str]) -> dict[str, str]:
        """Page -> work, of those that are stored."""
        with mongo.translated():
            rows = self._pages.find({"_id": {"$in": list(page_ids)}}, {"workId": 1})
            return {row["_id"]: row["workId"] async for row in rows}

    async def get(self, page_ids: Collection[str]) -> list[model.Page]:
        """These pages in order, of any owner: for making and repairs."""
        return sorted(await self._found({"_id": {"$in": list(page_ids)}}), key=lambda one: one.number)

    async def images(self, document_id: str) -> set[str]:
        """Keys of the images of a document's pages, and of its file."""
        with mongo.translated():
            keys = {row["image"]["key"] async for row in self._pages.find({"documentId": document_id}, {"image": 1})}
            row = await self._works.find_one({"_id": document_id}, {"file": 1})
        return keys | ({row["file"]["key"]} if row is not None and row["file"] else set())

    async def others(self, document_id: str, work_id: str) -> list[str]:
        """The works but for this one that the document has pages of."""
        query = {"documentId": document_id, "workId": {"$ne": work_id}}
        with mongo.translated():
            return sorted(await self._pages.distinct("workId", query))

    async def stop(self, document_id: str) -> bool:
        """Forget what is wanted of a document: what makes its pages stops. Whether anything is known of it."""
        with mongo.translated():
            await self._index()
            gone = await self._works.delete_many({"_id": document_id})
            left = await self._pages.find_one({"documentId": document_id}, {"_id": 1})
        return bool(gone.deleted_count) or left is not None

    async def drop(self, document_id: str, *, works: Collection[str] | None = None) -> int:
        """Delete a document's pages, or those of some works of it; how many there were."""
        chosen: dict[str, Any] = {} if works is None else {"workId": {"$in": list(works)}}
        with mongo.translated():
            gone = await self._pages.delete_many({"documentId": document_id, **chosen})
        return int(gone.deleted_count)

    async def discard(self, page_ids: Collection[str]) -> None:
        """Delete pages that no work has."""
        with mongo.translated():
            await self._pages.delete_many({"_id": {"$in": list(page_ids)}})

    async def erase(self, where: scope.Scope) -> int:
        """Delete what an erasure takes; how many pages that were."""
        with mongo.translated():
            await self._works.delete_many(closed.query(where))
            gone = await self._pages.delete_many(closed.query(where))
        return int(gone.deleted_count)

    async def regroup(self, owner: scope.Scope) -> int:
        """Let the owner's project's pages belong to its group; how many changed."""
        moved = await mongo.regroup(self._pages, owner, {})
        return len(moved) + len(await mongo.regroup(self._works, owner, {}))

    async def _found(self, query: Mapping[str, Any], fields: Mapping[str, int] | None = None) -> list[model.Page]:
        with mongo.translated():
            return [_page(row) async for row in self._pages.find(query, fields)]

    async def reown(self, page_ids: Collection[str], owner: scope.Scope) -> None:
        """Let these pages belong to this owner."""
        with mongo.translated():
            await self._pages.update_many({"_id": {"$in": list(page_ids)}}, {"$set": mongo.names(owner)})

    async def _change(
        self, work: model.Work, said: Mapping[str, Any], more: Mapping[str, int] | None = None
    ) -> scope.Scope | None:
        mine = {"_id": work.source.document_id, "workId": work.source.id, "state": WAITING, "claim": work.claim}
        what: dict[str, Any] = {"$set": {**said, "updatedAt": self._clock()}}
        if more:
            what["$inc"] = dict(more)
        with mongo.translated():
            row = await self._works.find_one_and_update(mine, what, _OWNER)
        return None if row is None else mongo.owner(row)

    async def _index(self) -> None:
        if not self._indexed:
            await self._works.create_index([("state", 1), ("nextAt", 1)])
            await self._works.create_index([("clientId", 1), ("_id", 1)])
            await self._pages.create_index([("documentId", 1)])
            await self._pages.create_index([("workId", 1)])
            await self._pages.create_index([("clientId", 1), ("_id", 1)])
            self._indexed = True


def _source(of: model.Source) -> dict[str, Any]:
    return {
        **mongo.names(of.owner),
        "documentId": of.document_id,
        "sourceUrn": of.source_urn,
        "title": of.title,
        "mediaType": of.media_type,
        "revision": of.revision,
        "digest": of.digest,
        "workId": of.id,
    }


def _stored(row: Mapping[str, Any]) -> model.Stored:
    return model.Stored(row["_id"], row["documentId"], row["workId"], mongo.owner(dict(row)))


def _read_source(row: Mapping[str, Any]) -> model.Source:
    return model.Source(
        mongo.owner(dict(row)),
        row["documentId"],
        row["sourceUrn"],
        row["title"],
        row["mediaType"],
        row["revision"],
        row["digest"],
    )


def _work(row: Mapping[str, Any]) -> model.Work:
    file = api.ContentRef(**row["file"]) if row["file"] else None
    return model.Work(
        _read_source(row),
        row["state"],
        row["model"],
        file,
        row["count"],
        row["done"],
        row["attempts"],
        row["nextAt"],
        tuple(row["problems"]),
        row["claim"],
        row["pauses"],
        row["waits"],
        row["updatedAt"],
    )


def _row(page: model.Page) -> dict[str, Any]:
    words = json.dumps([[one.left, one.top, one.right, one.bottom, one.text] for one in page.words])
    grid = page.grid
    return {
        "_id": page.id,
        **_source(page.source),
        "number": page.number,
        "image": _reference(page.image),
        "width": page.width,
        "height": page.height,
        "words": zlib.compress(words.encode()),
        "figures": page.figures,
        "model": page.model,
        "vectors": maxsim.pack(page.vectors),
        "grid": None if grid is None else [grid.rows, grid.columns, grid.first],
    }


def _page(row: Mapping[str, Any]) -> model.Page:
    return model.Page(
        row["_id"],
        _read_source(row),
        row["number"],
        api.ContentRef(**row["image"]),
        row["width"],
        row["height"],
        tuple(pages.Word(*one) for one in json.loads(zlib.decompress(row["words"]))),
        row["figures"],
        row["model"],
        maxsim.unpack(row.get("vectors", b"")),
        None if row["grid"] is None else model.Grid(*row["grid"]),
    )


def _reference(of: api.ContentRef | None) -> dict[str, Any] | None:
    return None if of is None else of.model_dump(mode="json")
