"""One issue or request to merge of a Git host with its comments and files. What the host does not give of it is left
out of it and named; a thing that it does not give at all is a failure at its place, and holds up no other one."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from crds import access
from sources.core import port, rest
from sources.providers.git_host import git_host, issue, progress
from text import mail

log = structlog.get_logger("sources")

MOST_COMMENT_PAGES = 50
FILE_BYTES, FILES_BYTES = 16 << 20, 48 << 20
"""Bytes of a file, of all files of an item."""
MOST_BAD = 3
"""A host that fails at more things than this in a row fails itself."""
UNFORESEEN = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What reading a row raises that is not as the host's documents say."""


class Things:
    """Of one poll. `readers` are by repository."""

    def __init__(self, host: git_host.Host, api: rest.Rest, web: rest.Rest, choice: git_host.Choice) -> None:
        self._host, self._api, self._web, self._choice = host, api, web, choice
        self.readers: dict[str, git_host.Readers] = {}
        self._bad = 0

    async def take(
        self,
        repository: str,
        listing: git_host.Listing,
        row: Mapping[str, Any],
        some: progress.Some,
        taken: progress.Taken,
        before: str,
    ) -> None:
        """Add the item of a row, or the failure that it is; nothing for what was deleted meanwhile. Raises what `Rest`
        raises about the host, and where it fails at one thing after the other."""
        shown = row
        for again in (False, True):
            try:
                if listing.comments:
                    shown = (await self._api.get(self._host.owner(row, repository))).json
                thing = self._host.thing(shown, repository, self._choice)
                if thing is not None and (not listing.comments or self._choice.admits(thing)):
                    some.add(await self._item(thing, shown, taken, before))
                self._bad = 0
                return
            except rest.Absent as error:
                if not await self._there(listing, row):
                    return
                reason = error.message
                break
            except (rest.Broken, rest.Garbled, rest.Foreign) as error:
                reason = error.message
                if not again:
                    continue
                self._bad += 1
                if self._bad > MOST_BAD:
                    raise
            except port.Misconfigured as error:
                if error.field == "spec.secretRef":
                    raise  # of a right, not of this thing
                reason = error.message
                break
            except UNFORESEEN as error:
                # One thing that the host describes in an unforeseen way must not stop the others.
                log.exception("issue not read", list=listing.name)
                reason = f"The host's answer about it is not understood: {error!r}."
                break
        some.failures.append(self.failure(repository, listing, shown, reason))

    def failure(self, repository: str, listing: git_host.Listing, row: object, reason: str) -> port.Failure:
        """Of a row, at its place where its number can be read."""
        fields = row if isinstance(row, Mapping) else {}
        place, name = "", f"{listing.name} {fields.get('id') or hashlib.sha256(repr(row).encode()).hexdigest()[:16]}"
        try:
            place = self.place(repository, listing, fields)
        except UNFORESEEN:
            if listing.comments:
                try:
                    number = self._host.owner(fields, repository).rpartition("/")[2]
                    place = f"{repository}{listing.mark}{int(number)}"
                except UNFORESEEN:
                    log.info("place of a comment not known", list=listing.name)
        return port.Failure((place or name)[:512], str(fields.get("title") or place)[:200], reason, place)

    def place(self, repository: str, listing: git_host.Listing, row: Mapping[str, Any]) -> str:
        """That of an issue, by its number alone. Raises `UNFORESEEN`."""
        return f"{repository}{listing.mark}{int(row[self._host.number])}"

    async def fetch(self, repository: str, listing: git_host.Listing, number: int, some: progress.Some) -> None:
        """Add what has this number, or the failure that it is; nothing where it is not there."""
        name: Mapping[str, Any] = {self._host.number: number}
        try:
            row = (await self._api.get(f"{listing.path}/{number}")).json
            thing = self._host.thing(row, repository, self._choice)
        except rest.Absent:
            return
        except (rest.Broken, rest.Garbled) as error:
            some.failures.append(self.failure(repository, listing, name, error.message))
            return
        except UNFORESEEN:
            thing = None
        else:
            if thing is None or not self._choice.admits(thing):
                return
        await self.take(repository, listing, row if isinstance(row, Mapping) else name, some, progress.Taken(), "")

    async def _there(self, listing: git_host.Listing, row: Mapping[str, Any]) -> bool:
        """Whether the host still has a thing of which it did not give a part."""
        if listing.comments:
            return False
        try:
            await self._api.get(f"{listing.path}/{row[self._host.number]}")
        except rest.Absent:
            return False
        return True

    async def _item(self, thing: issue.Thing, row: Mapping[str, Any], taken: progress.Taken, before: str) -> port.Item:
        comments, left_out = list[issue.Comment](), list[str]()
        repository = thing.repository
        linked = list(self._host.files(row, repository, thing.body))
        size, cut = len(thing.body), False
        path, query = self._host.comments_of(thing)
        pages, following = 0, query if thing.comments != 0 else None
        while following is not None:
            answer = await self._api.get(path, following)
            for entry in rows(answer, path):
                try:
                    comment = self._host.comment(entry)
                    uploads = self._host.files(entry, repository, comment.body) if comment is not None else ()
                except UNFORESEEN as error:
                    left_out.append(f"A comment is not understood: {error!r}.")
                    continue
                if comment is not None:
                    comments.append(comment)
                    taken.comments[comment.id] = comment.updated
                    size += len(comment.body)
                    linked += uploads
            asked, pages = following, pages + 1
            following = self._host.following(answer, asked)
            if following == asked:
                raise rest.Foreign(f"The pages of {path} lead in a circle.")
            cut = following is not None and (size > issue.TEXT_BYTES or pages >= MOST_COMMENT_PAGES)
            following = None if cut else following
        if not cut and thing.comments not in (None, len(comments)):
            # It changed since it was listed: what it is now has the time that its comments have.
            row = (await self._api.get(path.rpartition("/")[0])).json
            thing = self._host.thing(row, repository, self._choice) or thing
            if (thing.comments or 0) > len(comments):
                left_out.append(f"Of {thing.comments} comments the host gives {len(comments)}.")
        files, absent = await self._files(linked)
        may_read = access.UNKNOWN if thing.confidential else self.readers[repository][thing.mark]
        # A large one takes seconds: the claims of other Connections are renewed meanwhile.
        item = await asyncio.to_thread(
            issue.item,
            self._host.provider,
            thing,
            tuple(comments),
            files,
            absent,
            more=cut,
            before=before,
            may_read=may_read,
        )
        if cut:
            left_out.append("It has more comments; the newest are left out.")
        return replace(item, left_out=(*left_out, *absent))

    async def _files(self, linked: Sequence[issue.Linked]) -> tuple[tuple[mail.File, ...], tuple[str, ...]]:
        taken: list[mail.File] = []
        absent: list[str] = []
        left = FILES_BYTES
        for one in {entry.path: entry for entry in linked}.values():
            if len(taken) >= issue.MOST_FILES or left <= 0:
                absent.append(f"{one.shown}: there are too many")
                continue
            client = self._api if self._host.rest_of(one) == "api" else self._web
            try:
                body = await client.download(one.path, min(FILE_BYTES, left))
            except rest.TooLarge:
                absent.append(f"{one.shown}: it is too large")
            except (port.Misconfigured, port.Rejected):
                # A file that was deleted, or that the host shows to people in a browser alone.
                absent.append(f"{one.shown}: the host does not give it")
            else:
                taken.append(issue.file(one.name, body))
                left -= len(body)
        return tuple(taken), tuple(absent)


def rows(answer: rest.Answer, path: str) -> Sequence[Any]:
    """The entries of a list. Raises `rest.Foreign`."""
    if not isinstance(answer.json, list):
        raise rest.Foreign(f"{path[:200]} answered no list.")
    return answer.json
