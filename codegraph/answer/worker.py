"""Questions about a branch, answered in the worker process that holds it (`codegraph.branch.analyst`).

The worker keeps the branches that were asked for last, as many as its memory has room for. `answer` says with None that
it does not have the branch; the caller asks again with its facts.
"""

from __future__ import annotations

import functools
import resource
from collections import Counter, OrderedDict
from collections.abc import Sequence

from codegraph import api
from codegraph.answer import repo_map
from codegraph.answer.index import Index, UnknownError
from codegraph.answer.where import Where
from codegraph.branch import analyst
from codegraph.extract import packed_facts
from codegraph.resolve import calls
from codegraph.resolve.calls.edges import Edge
from codegraph.resolve.project import Project, Target
from contracts.api import message

GROWTH = 12
"""Bytes of a branch in memory, with the words of `where`, for each byte of its packed facts."""
_SHARE = 0.5
"""Of the memory of the process that branches may have; the rest is for the one that is being read."""


_MOST_LINES = 20
"""Of the calls from one declaration to another."""


class _Loaded:
    def __init__(self, project: Project, index: Index, size: int) -> None:
        self.index, self.size = index, size
        self.calls_unknown = calls_unknown(project)

    @functools.cached_property
    def where(self) -> Where:
        """Its words, counted at the first question about them."""
        return Where(self.index)


_loaded: OrderedDict[str, _Loaded] = OrderedDict()
_KINDS: dict[str, type[api.CodeQuestion]] = {
    "callers": api.Callers,
    "callees": api.Callers,
    "impact": api.Impact,
    "path": api.CodePath,
    "where": api.CodeWhere,
    "map": api.CodeMap,
    "history": api.CodeHistory,
    "neighbourhood": api.CodeNeighbourhood,
}


Stored = tuple[Sequence[bytes], bytes, Sequence[tuple[str, str]]]
"""Of a branch: the facts of its files, Joern's export or b"", and (path, blob) of the files."""


def answer(
    held: str, branch: str, project_id: str, stored: Stored | None, kind: str, asked: str, coverage: str
) -> tuple[str, str, list[str]] | None:
    """(reply as JSON, '', []), or ('', why there is none, candidates); None where the branch is not loaded.

    `held` names the state of the branch; `kind` is one of callers, callees, impact, path, where, map, history (without
    its commits, which `kb.code.history` adds), neighbourhood.
    """
    if held not in _loaded:
        if stored is None:
            return None
        packed, cpg, files = stored
        size = GROWTH * (sum(map(len, packed)) + len(cpg))
        _make_room(size)
        project, _ = analyst.enriched(packed_facts.read(packed)[0], cpg, dict(files))
        _loaded[held] = _Loaded(project, Index(project, branch, project_id), size)
    _loaded.move_to_end(held)
    question = _KINDS[kind].model_validate_json(asked)
    known = api.Coverage.model_validate_json(coverage)
    known = known.model_copy(update={"calls_unknown": _loaded[held].calls_unknown})
    try:
        return _answer(_loaded[held], kind, question, known).model_dump_json(by_alias=True), "", []
    except UnknownError as error:
        return "", str(error), list(error.candidates)


def _make_room(size: int) -> None:
    """Let go of the branches that were asked for longest ago, until `size` bytes more fit into the share of the limit
    of this process (`codegraph.branch.analyst`); what is larger than all of it is alone."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    most = _SHARE * (analyst.MEMORY if limit == resource.RLIM_INFINITY else limit)
    while _loaded and size + sum(one.size for one in _loaded.values()) > most:
        _loaded.popitem(last=False)


def held() -> tuple[str, ...]:
    """The states of branches that are loaded, the one that was asked for last at the end."""
    return tuple(_loaded)


def _answer(loaded: _Loaded, kind: str, asked: api.CodeQuestion, known: api.Coverage) -> message.Reply:
    index = loaded.index
    if isinstance(asked, api.Callers):
        return _calls(index, asked, known, callers=kind == "callers")
    if isinstance(asked, api.Impact):
        return _impact(index, asked, known)
    if isinstance(asked, api.CodePath):
        source, target = index.find(asked.source), index.find(asked.target)
        way = [_call(index, edge) for edge in index.path(source, target)]
        return api.PathReply(coverage=known, source=place(index, source), target=place(index, target), calls=way)
    if isinstance(asked, api.CodeMap):
        near = {index.find(one).path for one in asked.near}
        text, files = repo_map.draw(index, asked.tokens, near)
        return api.MapReply(coverage=known, text=text, tokens=-(-len(text) // 4), files=files)
    if isinstance(asked, api.CodeHistory):
        target = index.find(asked.symbol)
        return api.HistoryReply(coverage=known, symbol=place(index, target), path=target.path, name=target.qname)
    if isinstance(asked, api.CodeNeighbourhood):
        return _neighbourhood(index, asked, known)
    assert isinstance(asked, api.CodeWhere), kind
    return _where(loaded, asked, known)


def _calls(index: Index, asked: api.Callers, known: api.Coverage, *, callers: bool) -> api.CallsReply:
    target = index.find(asked.symbol)
    edges = sorted((index.callers if callers else index.callees).get(target, ()))
    page = edges[asked.after : asked.after + asked.limit]
    return api.CallsReply(
        coverage=known,
        symbol=place(index, target),
        calls=[_call(index, one) for one in page],
        total=len(edges),
        next=_next(asked.after + len(page), len(edges)),
    )


def _impact(index: Index, asked: api.Impact, known: api.Coverage) -> api.ImpactReply:
    target = index.find(asked.symbol)
    steps = index.impact(target, asked.depth)
    page = steps[asked.after : asked.after + asked.limit]
    affected = [
        api.Affected(
            place=place(index, one.target), distance=one.distance, by=one.by, of=place(index, one.of).qualified_name
        )
        for one in page
    ]
    return api.ImpactReply(
        coverage=known,
        symbol=place(index, target),
        affected=affected,
        tests=index.tests([target, *(one.target for one in steps)]),
        total=len(steps),
        next=_next(asked.after + len(page), len(steps)),
    )


def _neighbourhood(index: Index, asked: api.CodeNeighbourhood, known: api.Coverage) -> api.NeighbourhoodReply:
    start = index.find(asked.symbol)
    found = index.around(start, asked.steps)
    kept = found[: asked.limit]
    own = place(index, start)
    among = index.among(start, [one for one, _, _ in kept])
    return api.NeighbourhoodReply(
        coverage=known,
        symbol=own,
        neighbours=[
            api.Neighbour(place=own, side="symbol", steps=0),
            *(api.Neighbour(place=place(index, one), side=side, steps=steps) for one, side, steps in kept),
        ],
        calls=[
            api.NeighbourCalls(caller=_key(index, one), callee=_key(index, other), lines=sorted(lines)[:_MOST_LINES])
            for (one, other), lines in sorted(among.items())
        ],
        left_out=len(found) - len(kept),
    )


def _key(index: Index, target: Target) -> str:
    return index.keys.of(target.path, target.qname)


def _where(loaded: _Loaded, asked: api.CodeWhere, known: api.Coverage) -> api.WhereReply:
    found = loaded.where.rank(asked.text, asked.limit)
    return api.WhereReply(
        coverage=known,
        files=[api.RankedFile(path=path, score=score) for path, score in found.files],
        functions=[api.RankedPlace(place=place(loaded.index, one), score=score) for one, score in found.functions],
    )


def place(index: Index, target: Target) -> api.CodePlace:
    """A target as answers show it."""
    one = index.symbol(target)
    return api.CodePlace(
        path=target.path,
        name=one.name if one else target.path.rpartition("/")[2],
        qualified_name=index.keys.qualified(target.path, target.qname),
        kind=one.kind if one else "file",
        line=one.line if one else 1,
        key=index.keys.of(target.path, target.qname),
        signature=one.signature if one else "",
    )


def _call(index: Index, edge: Edge) -> api.CodeCall:
    return api.CodeCall(
        caller=place(index, Target(edge.caller_file, edge.caller)),
        callee=place(index, Target(edge.callee_file, edge.callee)),
        line=edge.line,
        rule=edge.rule,
        confidence=edge.confidence,
    )


def _next(after: int, total: int) -> int | None:
    return after if after < total else None


def calls_unknown(project: Project) -> list[str]:
    """The languages with declarations whose calls nothing resolves, neither a resolver nor Joern."""
    called = {project.files[edge.caller_file].language for edge in project.calls.edges}
    return sorted({file.language for file in project.files.values() if file.symbols} - called - calls.LANGUAGES.keys())


def skipped(rows: Sequence[tuple[str, str, str]]) -> dict[str, int]:
    """How many files were not read, by reason."""
    return dict(Counter(reason for _, reason, _ in rows))
