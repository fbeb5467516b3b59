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

import hashlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import structlog

from crds import connection
from sources.core import host_address, hosts, limits, port, rest
from sources.providers.git_host import git_host, issue, progress, things

log = structlog.get_logger("sources")

OVERLAP = timedelta(minutes=5)
"""Time before the mark that is read again: commits become visible late, and clocks of one host's servers differ."""
SETTLED = timedelta(seconds=2)
"""Time before the host's own time in which a thing may still change without another time: hosts time in seconds."""
MOST_PASSES = 5
"""Over one list in one poll."""
MOST_SEEN = 50_000


class Tracker:
    """One poll. `opens` gives clients of the host's REST API and of its own files, which are closed behind each use."""

    tells = False

    def __init__(
        self,
        host: git_host.Host,
        opens: Callable[[], tuple[rest.Rest, rest.Rest]],
        url: str,
        repositories: Sequence[str],
        choice: git_host.Choice,
    ) -> None:
        self._host, self._opens, self._choice = host, opens, choice
        self._api: rest.Rest
        self._things: things.Things
        self._repositories = tuple(dict.fromkeys(repositories))
        said = repr((url, self._repositories, choice))
        self._of = hashlib.sha256(said.encode()).hexdigest()[:16]

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        known = cursor if cursor.get("of") == self._of else {}
        at = progress.At(
            self._of, dict(known.get("lists", {})), dict(known.get("counts", {})), dict(known.get("access", {}))
        )
        absent, failed = list[rest.Absent](), list[port.Unreachable]()
        async with self._session():
            for repository in self._repositories:
                try:
                    async with aclosing(self._repository(repository, at)) as found:
                        async for batch in found:
                            yield batch
                except rest.Absent as error:
                    absent.append(error)
                except (rest.Broken, rest.Garbled, rest.Foreign) as error:
                    # One repository that the host cannot show holds up no other.
                    failed.append(error)
            if failed:
                raise failed[0]
            if absent:
                raise port.Misconfigured(
                    f"Of {len(self._repositories)} repositories {len(absent)} cannot be read, all others are:"
                    f" {absent[0].message}",
                    field=absent[0].field,
                    remedy=absent[0].remedy,
                )

    async def ids(self) -> AsyncGenerator[port.Page]:
        """See `port.Source`. A list that changes while it is read is read again."""
        async with self._session():
            for repository in self._repositories:
                for listing in self._host.lists(repository, self._choice):
                    if not listing.comments:
                        async with aclosing(self._places(repository, listing)) as pages:
                            async for page in pages:
                                yield page
            yield port.Page((), last=True)

    async def fetch(self, places: Sequence[str]) -> AsyncGenerator[port.Batch]:
        """See `port.Fetching`."""
        wanted: dict[tuple[str, str], list[int]] = {}
        for place in places:
            repository, mark, number = _parts(place)
            wanted.setdefault((repository, mark), []).append(number)
        async with self._session():
            for (repository, mark), numbers in wanted.items():
                lists = [one for one in self._host.lists(repository, self._choice) if not one.comments]
                listing = next((one for one in lists if one.mark == mark), None)
                if repository not in self._repositories or listing is None:
                    continue
                self._things.readers[repository] = await self._host.access(self._api, repository)
                for number in numbers:
                    some = progress.Some()
                    await self._things.fetch(repository, listing, number, some)
                    if some:
                        yield port.Batch({}, "", tuple(some.items), tuple(some.failures))

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[None]:
        self._api, web = self._opens()
        self._things = things.Things(self._host, self._api, web, self._choice)
        try:
            yield
        finally:
            await self._api.close()
            await web.close()

    async def _repository(self, repository: str, at: progress.At) -> AsyncGenerator[port.Batch]:
        """Issues first: the comments that come with them are not asked for again."""
        lists, taken = self._host.lists(repository, self._choice), progress.Taken()
        self._things.readers[repository] = told = await self._host.access(self._api, repository)
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
            shown: Sequence[Any] = ()
            while query is not None:
                if _said(query) in visited:
                    raise rest.Foreign(f"The pages of {listing.path} lead in a circle.")
                visited.add(_said(query))
                known = state.get("etag") or ["", ""]
                sent = {"If-None-Match": known[1]} if known[0] == _said(query) else {}
                answer = await self._api.get(listing.path, query, sent)
                if answer.status == 304:
                    return
                rows, pages = things.rows(answer, listing.path), pages + 1
                full = len(rows) >= int(query.get("per_page") or query.get("limit") or 1)
                asked_at = asked_at or _written(_date(answer) - OVERLAP)
                here = {"mark": mark, "high": high, "next": dict(query)}
                some = progress.Some()
                for row in rows:
                    try:
                        name, stamp, changed = _named(self._host, row, listing)
                    except things.UNFORESEEN as error:
                        why = f"The host lists it without a number or a time: {error!r}."
                        some.failures.append(self._things.failure(repository, listing, row, why))
                        continue
                    if seen.knows(name, stamp):
                        continue
                    news, before = True, seen.untimed(name, stamp)
                    try:
                        if not (listing.comments and taken.comments.get(name) == stamp):
                            await self._things.take(repository, listing, row, some, taken, before)
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
                query = self._following(answer, query, rows, shown)
                shown = rows
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

    def _following(
        self, answer: rest.Answer, query: git_host.Query, rows: Sequence[Any], before: Sequence[Any]
    ) -> git_host.Query | None:
        """The next page. A full page without Link may be the only one, or a proxy has taken the header away: the one
        behind it is asked for, unless the host gives the same page again."""
        following = self._host.following(answer, query)
        size = query.get("per_page", "")
        if following is None and size and len(rows) >= int(size) and "Link" not in answer.headers and rows != before:
            return {**query, "page": str(int(query.get("page", "1")) + 1)}
        return following

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
            shown: Sequence[Any] = ()
            while following is not None:
                if _said(following) in visited:
                    raise rest.Foreign(f"The pages of {listing.path} lead in a circle.")
                visited.add(_said(following))
                answer = await self._api.get(listing.path, following)
                rows, pages = things.rows(answer, listing.path), pages + 1
                some = dict(self._named_places(rows, repository, listing))
                names.update(some)
                yield port.Page(tuple(place for place in some.values() if place))
                total = _total(answer)
                totals |= {total} if total is not None else set()
                following, shown = self._following(answer, following, rows, shown), rows
            if pages > 1 and counted is not None and _total(answer) is None:
                totals.add(await self._host.count(self._api, listing, query))
            totals.discard(None)
            complete = totals == {len(names)} if totals else pages == 1 or names == before
            if complete:
                return
            before = names
        raise port.Unreachable(f"The list of {repository} changes while it is read.")

    def _named_places(
        self, rows: Sequence[Any], repository: str, listing: git_host.Listing
    ) -> Iterator[tuple[str, str]]:
        """(number, place) of each entry; the place is "" for one that the choice leaves out."""
        for row in rows:
            try:
                place = self._things.place(repository, listing, row)
            except things.UNFORESEEN as error:
                # Left out, it would be taken for gone.
                said = f"{listing.path[:200]} answered an entry that is not understood: {error!r}."
                raise rest.Foreign(said) from error
            try:
                thing = self._host.thing(row, repository, self._choice)
                place = thing.place if thing is not None else ""
            except things.UNFORESEEN:
                log.info("entry of a list not understood", list=listing.name, place=place)
            yield str(int(row[self._host.number])), place


def _total(answer: rest.Answer) -> int | None:
    said = answer.headers.get("X-Total-Count") or answer.headers.get("X-Total") or ""
    return int(said) if said.isdigit() else None


def _named(host: git_host.Host, row: Any, listing: git_host.Listing) -> tuple[str, str, str]:
    """See `git_host.Host.name`. Raises `things.UNFORESEEN`."""
    named = host.name(row, listing)
    _moment(named[2])
    return named


def _parts(place: str) -> tuple[str, str, int]:
    """Repository, mark and number of a place."""
    mark = "!" if "!" in place.rpartition("#")[2] else "#"
    repository, _, number = place.rpartition(mark)
    return repository, mark, int(number)


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

        def client(base: str) -> rest.Rest:
            return rest.Rest(base, address.headers, bucket, trusted, monotonic=monotonic, wall=wall, reached=reached)

        return Tracker(make(), lambda: (client(address.api), client(address.web)), address.api, address.names, choice)

    return opens
