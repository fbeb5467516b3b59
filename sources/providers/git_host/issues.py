"""Issue trackers of Git hosts: every issue and request to merge once for each of its versions, with its comments.

A poll reads lists: the issues of a repository, its requests to merge, its comments, each from `mark` on, which is a
time of the host's own less `OVERLAP`. What a list shows is compared with `seen` ({name: stamp}), so a page that shifts
while it is read, equal times and late commits cost a second look and lose nothing: a list of several pages is read
again until it shows nothing new, and only then the mark moves. The cursor is `{"of": HASH, "lists": {NAME: {"mark",
"high", "seen", "next", "etag"}}, "counts": {REPOSITORY: N}, "access": {REPOSITORY: HASH}}`; `next` is the page within
an unfinished list, `counts` has how many comments the lists up to here know of.

What differs between hosts is a `Host`: `sources.providers.github.reading`, `.gitlab`, `.gitea`.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import structlog

from crds import access, connection
from sources.core import host_address, hosts, limits, port, rest
from sources.providers.git_host import git_host, issue, progress
from text import mail

log = structlog.get_logger("sources")

OVERLAP = timedelta(minutes=5)
"""Time before the mark that is read again: commits become visible late, and clocks of one host's servers differ."""
SETTLED = timedelta(seconds=2)
"""Time before the host's own time in which a thing may still change without another time: hosts time in seconds."""
MOST_PASSES = 5
"""Over one list in one poll."""
MOST_SEEN = 50_000
MOST_COMMENT_PAGES = 50
FILE_BYTES, FILES_BYTES = 16 << 20, 48 << 20
"""Bytes of a file, of all files of an item."""


class Tracker:
    """One poll. `api` answers the host's REST API, `web` its own files."""

    def __init__(
        self,
        host: git_host.Host,
        api: rest.Rest,
        web: rest.Rest,
        url: str,
        repositories: Sequence[str],
        choice: git_host.Choice,
    ) -> None:
        self._host, self._api, self._web, self._choice = host, api, web, choice
        self._repositories = tuple(dict.fromkeys(repositories))
        said = repr((url, self._repositories, choice))
        self._readers: dict[str, git_host.Readers] = {}
        self._of = hashlib.sha256(said.encode()).hexdigest()[:16]

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        known = cursor if cursor.get("of") == self._of else {}
        at = progress.At(
            self._of, dict(known.get("lists", {})), dict(known.get("counts", {})), dict(known.get("access", {}))
        )
        absent: list[rest.Absent] = []
        try:
            for repository in self._repositories:
                try:
                    async with aclosing(self._repository(repository, at)) as found:
                        async for batch in found:
                            yield batch
                except rest.Absent as error:
                    absent.append(error)
            if absent:
                raise port.Misconfigured(
                    f"Of {len(self._repositories)} repositories {len(absent)} cannot be read, all others are:"
                    f" {absent[0].message}",
                    field=absent[0].field,
                    remedy=absent[0].remedy,
                )
        finally:
            await self._close()

    async def ids(self) -> AsyncGenerator[port.Page]:
        """See `port.Source`. A list that changes while it is read is read again."""
        try:
            for repository in self._repositories:
                for listing in self._host.lists(repository, self._choice):
                    if not listing.comments:
                        async with aclosing(self._places(repository, listing)) as pages:
                            async for page in pages:
                                yield page
            yield port.Page((), last=True)
        finally:
            await self._close()

    async def _close(self) -> None:
        await self._api.close()
        await self._web.close()

    async def _repository(self, repository: str, at: progress.At) -> AsyncGenerator[port.Batch]:
        """Issues first: the comments that come with them are not asked for again."""
        lists, taken = self._host.lists(repository, self._choice), progress.Taken()
        self._readers[repository] = told = await self._host.access(self._api, repository)
        told_before = at.access.get(repository)
        at.access[repository] = said = hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest()[:16]
        if said != told_before:
            # Others may read all of it now, which no thing of it has a time for: it is read from its beginning.
            for one in lists:
                if not one.comments:
                    at.lists.pop(one.name, None)
        changes = [one for one in lists if one.comments]
        begun = [await self._begin(repository, one, at) for one in changes if not at.lists.get(one.name)]
        for listing in [one for one in lists if not one.comments] + changes:
            async with aclosing(self._list(repository, listing, at, taken)) as found:
                async for batch in found:
                    yield batch
        expected = at.counts.get(repository)
        if expected is None or begun:
            return
        now = await self._host.comment_count(self._api, repository) or 0
        at.counts[repository] = min(now, expected)
        if now < expected:
            # The host does not time the deletion of a comment: everything is compared once.
            log.info("comments were deleted: all issues are compared", repository=repository)
            for listing in [one for one in lists if not one.comments]:
                old = at.lists[listing.name]
                at.lists[listing.name] = {"mark": "", "high": old["mark"], "seen": old["seen"]}
            for listing in [one for one in lists if not one.comments]:
                async with aclosing(self._list(repository, listing, at, taken)) as found:
                    async for batch in found:
                        yield batch

    async def _begin(self, repository: str, listing: git_host.Listing, at: progress.At) -> bool:
        """Comments are read with their issues; their list is for those that change from the host's now on."""
        answer = await self._api.get(listing.path, listing.query)
        at.lists[listing.name] = {"mark": _written(_date(answer)), "seen": {}}
        count = await self._host.comment_count(self._api, repository)
        if count is not None:
            at.counts[repository] = count
        return True

    async def _list(
        self, repository: str, listing: git_host.Listing, at: progress.At, taken: progress.Taken
    ) -> AsyncGenerator[port.Batch]:
        """One list from its mark on, until it shows nothing new."""
        state = dict(at.lists.get(listing.name, {}))
        mark, seen = state.get("mark", ""), progress.Seen(state.get("seen", {}))
        high, query = state.get("high", "") or mark, state.get("next")
        first = {**listing.query, **self._from(mark)}
        resumed, pages, created = query is not None, 0, 0

        def counted(state: Mapping[str, Any], some: progress.Some | None = None) -> port.Batch:
            """With the number of its new comments: a kill behind it loses none of them."""
            nonlocal created
            if repository in at.counts:
                at.counts[repository] += created
            created = 0
            return at.batch(listing.name, state, some)

        for _ in range(MOST_PASSES):
            news, visited, asked_at = resumed, set[str](), ""
            query, pages, resumed = query or first, 0, False
            while query is not None:
                if _said(query) in visited:
                    raise port.Unreachable(f"The pages of {listing.path} lead in a circle.")
                visited.add(_said(query))
                known = state.get("etag") or ["", ""]
                sent = {"If-None-Match": known[1]} if known[0] == _said(query) else {}
                answer = await self._api.get(listing.path, query, sent)
                if answer.status == 304:
                    return
                rows, pages = _rows(answer, listing.path), pages + 1
                full = len(rows) >= int(query.get("per_page") or query.get("limit") or 1)
                asked_at = asked_at or _written(_date(answer) - OVERLAP)
                here = {"mark": mark, "high": high, "next": dict(query)}
                some = progress.Some()
                for row in rows:
                    name, stamp, changed = _named(self._host, row, listing)
                    if seen.knows(name, stamp):
                        continue
                    news, before = True, seen.untimed(name, stamp)
                    try:
                        if not (listing.comments and taken.comments.get(name) == stamp):
                            await self._take(repository, listing, row, some, taken, before)
                    except (port.Unreachable, port.Rejected, port.Misconfigured):
                        if some:
                            # What was read so far is kept: the next poll goes on behind it.
                            yield counted({**here, "seen": seen.stored()}, some)
                        raise
                    if listing.comments and name not in seen.stamps and str(row.get("created_at", "")) >= mark:
                        created += 1
                    seen.put(name, stamp, before, settled=_moment(changed) < _date(answer) - SETTLED)
                    if _moment(changed) <= _date(answer) + OVERLAP:
                        # A time that the host's clock has not reached would hide all changes until then.
                        high = max(high, changed, key=_moment)
                    here["high"] = high
                    if some.full:
                        yield counted({**here, "seen": seen.stored()}, some)
                        some = progress.Some()
                query = self._host.following(answer, query)
                if some:
                    yield counted({**here, "seen": seen.stored(), "next": query and dict(query)}, some)
                etag = answer.headers.get("ETag", "")
            if not news or (pages == 1 and not _resumed(state)):
                break
        else:
            log.info("list changes while it is read", repository=repository, list=listing.name)
            high = mark  # the mark stays until a pass shows nothing new
        if not news and pages > 1:
            # Much is as young as the mark, such as after an import: it is not read again for ever.
            high = max(high, asked_at, key=_moment)
        kept = self._kept(seen.stored(), high, listing)
        new: dict[str, Any] = {"mark": high, "seen": kept}
        again = {**listing.query, **self._from(high)}
        # What follows a full page does not change it.
        if etag and pages == 1 and not full and not news and _said(again) == _said(first):
            new["etag"] = [_said(first), etag]
        if new != at.lists.get(listing.name):
            yield counted(new)

    def _kept(self, seen: dict[str, str], high: str, listing: git_host.Listing) -> dict[str, str]:
        """What is compared with the next answers: all that may be in them."""
        names = list(seen.items())[-MOST_SEEN:]
        if self._host.keeps and not listing.comments:
            return dict(names)
        edge = _moment(high) - OVERLAP
        return {name: stamp for name, stamp in names if _moment(progress.timed(stamp)) >= edge}

    def _from(self, mark: str) -> git_host.Query:
        since = [_moment(mark) - OVERLAP] if mark else []
        since += [self._choice.since] if self._choice.since else []
        return {self._host.since: _written(max(since))} if since else {}

    async def _take(
        self,
        repository: str,
        listing: git_host.Listing,
        row: Mapping[str, Any],
        some: progress.Some,
        taken: progress.Taken,
        before: str,
    ) -> None:
        """Add the item of a row, or the failure that it is; nothing for what was deleted meanwhile."""
        try:
            if listing.comments:
                row = (await self._api.get(self._host.owner(row, repository))).json
            thing = self._host.thing(row, repository, self._choice)
            if thing is not None and (not listing.comments or self._choice.admits(thing)):
                some.add(await self._item(thing, row, taken, before))
        except rest.Absent:
            return
        except port.Misconfigured as error:
            if error.field == "spec.secretRef":
                raise  # of a right, not of this thing
            some.failures.append(_failure(listing, row, error.message))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # One thing that the host describes in an unforeseen way must not stop the others.
            log.exception("issue not read", list=listing.name)
            some.failures.append(_failure(listing, row, f"The host's answer about it is not understood: {error!r}."))

    async def _item(self, thing: issue.Thing, row: Mapping[str, Any], taken: progress.Taken, before: str) -> port.Item:
        comments: list[issue.Comment] = []
        repository = thing.repository
        linked = list(self._host.files(row, repository, thing.body))
        size, cut = len(thing.body), False
        path, query = self._host.comments_of(thing)
        pages, following = 0, query if thing.comments != 0 else None
        while following is not None:
            answer = await self._api.get(path, following)
            for entry in _rows(answer, path):
                one = self._host.comment(entry)
                if one is not None:
                    comments.append(one)
                    taken.comments[one.id] = one.updated
                    size += len(one.body)
                    linked += self._host.files(entry, repository, one.body)
            asked, pages = following, pages + 1
            following = self._host.following(answer, asked)
            if following == asked:
                raise port.Unreachable(f"The pages of {path} lead in a circle.")
            cut = following is not None and (size > issue.TEXT_BYTES or pages >= MOST_COMMENT_PAGES)
            following = None if cut else following
        if not cut and thing.comments not in (None, len(comments)):
            # It changed since it was listed: what it is now has the time that its comments have.
            row = (await self._api.get(path.rpartition("/")[0])).json
            thing = self._host.thing(row, repository, self._choice) or thing
        files, absent = await self._files(linked)
        may_read = access.UNKNOWN if thing.confidential else self._readers[repository][thing.mark]
        # A large one takes seconds: the claims of other Connections are renewed meanwhile.
        return await asyncio.to_thread(
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

    async def _places(self, repository: str, listing: git_host.Listing) -> AsyncGenerator[port.Page]:
        query = self._host.newest_first(listing)
        if self._choice.since:
            query = {**query, **self._from("")}
        before: set[str] | None = None
        for _ in range(MOST_PASSES):
            names: set[str] = set()
            counted = await self._host.count(self._api, listing, query)
            totals, visited, pages = {counted}, set[str](), 0
            following: git_host.Query | None = query
            while following is not None:
                if _said(following) in visited:
                    raise port.Unreachable(f"The pages of {listing.path} lead in a circle.")
                visited.add(_said(following))
                answer = await self._api.get(listing.path, following)
                rows, pages = _rows(answer, listing.path), pages + 1
                names.update(_named(self._host, row, listing)[0] for row in rows)
                yield port.Page(tuple(self._named_places(rows, repository, listing)))
                total = _total(answer)
                totals |= {total} if total is not None else set()
                following = self._host.following(answer, following)
            if pages > 1 and counted is not None and _total(answer) is None:
                totals.add(await self._host.count(self._api, listing, query))
            totals.discard(None)
            complete = totals == {len(names)} if totals else pages == 1 or names == before
            if complete:
                return
            before = names
        raise port.Unreachable(f"The list of {repository} changes while it is read.")

    def _named_places(
        self, rows: Sequence[Mapping[str, Any]], repository: str, listing: git_host.Listing
    ) -> Iterator[str]:
        try:
            for row in rows:
                thing = self._host.thing(row, repository, self._choice)
                if thing is not None:
                    yield thing.place
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # Left out, it would be taken for gone.
            raise port.Unreachable(
                f"{listing.path[:200]} answered an entry that is not understood: {error!r}."
            ) from error


def _failure(listing: git_host.Listing, row: Mapping[str, Any], reason: str) -> port.Failure:
    return port.Failure(f"{listing.name} {row.get('id', '')}"[:512], str(row.get("title") or "")[:200], reason)


def _total(answer: rest.Answer) -> int | None:
    said = answer.headers.get("X-Total-Count") or answer.headers.get("X-Total") or ""
    return int(said) if said.isdigit() else None


def _rows(answer: rest.Answer, path: str) -> list[Mapping[str, Any]]:
    if not isinstance(answer.json, list) or not all(isinstance(row, dict) for row in answer.json):
        raise port.Unreachable(f"{path[:200]} answered no list.")
    return answer.json


def _named(host: git_host.Host, row: Mapping[str, Any], listing: git_host.Listing) -> tuple[str, str, str]:
    try:
        found = host.name(row, listing)
        _moment(found[2])
        return found
    except (KeyError, TypeError, ValueError) as error:
        raise port.Unreachable(f"{listing.path[:200]} answered an entry without number or time: {error!r}.") from error


def _resumed(state: Mapping[str, Any]) -> bool:
    return state.get("next") is not None


def _said(query: git_host.Query) -> str:
    return repr(sorted(query.items()))


def _moment(text: str) -> datetime:
    return issue.time(text) if text else datetime.min.replace(tzinfo=UTC) + OVERLAP


def _written(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _date(answer: rest.Answer) -> datetime:
    """The host's own time (RFC 9110 6.6.1)."""
    try:
        return parsedate_to_datetime(answer.headers["Date"]).astimezone(UTC)
    except (KeyError, ValueError) as error:
        raise port.Unreachable("The host's answer has no date.") from error


def opened(
    make: Callable[[], git_host.Host],
    rules: host_address.Rules,
    plain: bool,
    tls: ssl.SSLContext,
    monotonic: Callable[[], float],
    wall: Callable[[], datetime],
    reached: hosts.Hosts = hosts.LOCAL,
) -> Callable[[connection.Spec, Mapping[str, str], limits.Bucket], Tracker]:
    """What opens the tracker of a Connection. It raises `Misconfigured`."""

    def opens(spec: connection.Spec, credentials: Mapping[str, str], bucket: limits.Bucket) -> Tracker:
        address = host_address.derive(rules, spec, credentials, plain=plain)
        trusted = hosts.trusted(tls, credentials.get("ca.crt", ""))
        chosen = spec.filter or connection.Filter()
        query = git_host.query(chosen.query)
        choice = git_host.Choice(chosen.since, query.state, query.labels, query.types)
        api, web = (
            rest.Rest(base, address.headers, bucket, trusted, monotonic=monotonic, wall=wall, reached=reached)
            for base in (address.api, address.web)
        )
        return Tracker(make(), api, web, address.api, address.names, choice)

    return opens
