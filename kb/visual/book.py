"""What is kept of pages in MongoDB: `kb_page_works`, one row for each document that has pages or waits for them, and
`kb_pages`, one for each page with its layout and all of its vectors.

A row of work is claimed by moving `nextAt` into the future; a process that dies leaves it to the next one then. Who
makes pages asks `alive` before and after each write: a newer version, or a deletion, has taken the row away.
"""

from __future__ import annotations

import json
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
WAITING, DONE, FAILED = "Waiting", "Done", "Failed"


class Book:
    """Raises `kb.errors.Away`. `patience`: how long a claim holds without a sign of life."""

    def __init__(
        self,
        database: mongo.Database,
        clock: Callable[[], datetime],
        *,
        patience: timedelta = timedelta(minutes=10),
    ) -> None:
        self._works = database[WORKS]
        self._pages = database[PAGES]
        self._clock = clock
        self._patience = patience
        self._indexed = False

    async def open(self, source: model.Source, file: api.ContentRef | None) -> None:
        """Have pages made of a document's version; one that is made, or waits, of the same file stays as it is."""
        now = self._clock()
        with mongo.translated():
            await self._index()
            known = await self._works.find_one({"_id": source.document_id})
            if known is not None and known["workId"] == source.id and known["state"] != FAILED:
                await self._works.update_one({"_id": source.document_id}, {"$set": mongo.names(source.owner)})
                return
            row = {
                **_source(source),
                "state": WAITING,
                "model": "",
                "file": _reference(file),
                "count": 0,
                "done": 0,
                "attempts": 0,
                "nextAt": now,
                "problems": [],
                "updatedAt": now,
            }
            await self._works.update_one({"_id": source.document_id}, {"$set": row}, upsert=True)

    async def again(self, work: model.Work) -> bool:
        """Have a document's pages embedded anew, from their images; False when it has changed meanwhile."""
        fresh = {"state": WAITING, "done": 0, "attempts": 0, "nextAt": self._clock(), "model": ""}
        with mongo.translated():
            done = await self._works.update_one(
                {"_id": work.source.document_id, "workId": work.source.id, "state": work.state}, {"$set": fresh}
            )
        return int(done.matched_count) == 1

    async def claim(self) -> model.Work | None:
        """The work that has waited longest, now of the caller for `patience`; None when none waits."""
        now = self._clock()
        with mongo.translated():
            await self._index()
            row = await self._works.find_one_and_update(
                {"state": WAITING, "nextAt": {"$lte": now}},
                {"$set": {"nextAt": now + self._patience}, "$inc": {"attempts": 1}},
                sort=[("nextAt", 1)],
                return_document=mongo.AFTER,
            )
        return None if row is None else _work(row)

    async def alive(self, work: model.Work, *, count: int | None = None, done: int | None = None) -> bool:
        """Whether the work is still wanted; it then stays the caller's, with what is known of it now."""
        said: dict[str, Any] = {"nextAt": self._clock() + self._patience}
        said |= {name: value for name, value in (("count", count), ("done", done)) if value is not None}
        return await self._change(work, said)

    async def finish(self, work: model.Work, visual_model: str, problems: Sequence[str]) -> bool:
        """All pages are made. False when the work is not wanted any more."""
        said = {"state": DONE, "model": visual_model, "problems": list(problems)[:50], "file": None, "nextAt": None}
        return await self._change(work, said)

    async def later(self, work: model.Work, at: datetime, reason: str) -> None:
        """Something is away: it is tried again then."""
        await self._change(work, {"nextAt": at, "problems": [reason[:500]]})

    async def fail(self, work: model.Work, reason: str) -> None:
        """It cannot be done."""
        await self._change(work, {"state": FAILED, "problems": [reason[:500]], "file": None, "nextAt": None})

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

    async def vectors(self, viewer: scope.Scope, page_ids: Sequence[str], *, budget: int) -> dict[str, model.Array]:
        """All vectors of these pages, in this order, until they have `budget` bytes as they are stored."""
        found: dict[str, model.Array] = {}
        spent, step, at = 0, 8, 0
        with mongo.translated():
            while at < len(page_ids) and spent < budget:
                some = list(page_ids[at : at + step])
                # By ids alone, which every server looks up; whose they are is looked at here.
                async for row in self._pages.find({"_id": {"$in": some}}, {"vectors": 1, **_OWNER}):
                    spent += len(row["vectors"])
                    if visibility.sees(viewer, mongo.owner(row)):
                        found[row["_id"]] = maxsim.unpack(row["vectors"])
                at += len(some)
                # As many more as fit, as far as those before tell.
                step = max(1, min(128, int((budget - spent) / max(spent / at, 1))))
        return found

    async def of_work(self, work_id: str) -> list[model.Page]:
        """Its pages in order."""
        return sorted(await self._found({"workId": work_id}), key=lambda one: one.number)

    async def page_ids(self, client_id: str, *, after: str = "", limit: int = 500) -> list[tuple[str, str, str]]:
        """(page, document, work) of a client, in order of the pages' ids, those after `after`."""
        query = {"clientId": client_id, "_id": {"$gt": after}}
        with mongo.translated():
            rows = self._pages.find(query, {"documentId": 1, "workId": 1}).sort("_id", 1).limit(limit)
            return [(row["_id"], row["documentId"], row["workId"]) async for row in rows]

    async def page_works(self, page_ids: Collection[str]) -> dict[str, str]:
        """Page -> work, of those that are stored."""
        with mongo.translated():
            rows = self._pages.find({"_id": {"$in": list(page_ids)}}, {"workId": 1})
            return {row["_id"]: row["workId"] async for row in rows}

    async def held(self, page_ids: Collection[str]) -> set[str]:
        """Those of the given pages that are stored."""
        with mongo.translated():
            return {row["_id"] async for row in self._pages.find({"_id": {"$in": list(page_ids)}}, {"_id": 1})}

    async def get(self, page_ids: Collection[str]) -> list[model.Page]:
        """These pages, of any owner: for repairs."""
        return await self._found({"_id": {"$in": list(page_ids)}})

    async def images(self, document_id: str) -> set[str]:
        """Keys of the images of a document's pages, and of its file."""
        with mongo.translated():
            keys = {row["image"]["key"] async for row in self._pages.find({"documentId": document_id}, {"image": 1})}
            row = await self._works.find_one({"_id": document_id}, {"file": 1})
        return keys | ({row["file"]["key"]} if row is not None and row["file"] else set())

    async def drop(self, document_id: str, *, keep: str = "") -> int:
        """Forget a document's pages, but for those of the work `keep`; how many pages there were."""
        other: dict[str, Any] = {"workId": {"$ne": keep}} if keep else {}
        with mongo.translated():
            # The row of work first: what makes pages stops.
            await self._works.delete_many({"_id": document_id, **other})
            gone = await self._pages.delete_many({"documentId": document_id, **other})
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

    async def _change(self, work: model.Work, said: Mapping[str, Any]) -> bool:
        mine = {"_id": work.source.document_id, "workId": work.source.id, "state": WAITING}
        with mongo.translated():
            changed = await self._works.update_one(mine, {"$set": {**said, "updatedAt": self._clock()}})
        return int(changed.matched_count) == 1

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
