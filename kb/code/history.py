"""Which commits changed a declaration or a file, out of the graph, where each commit says what it changed.

A declaration keeps its name inside of the file where the file is renamed, so its history goes on with the old path, up
to the date of the rename. Dates are those of the authors, so commits of a branch that was rebased may change places.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from codegraph import api
from contracts import repository_keys
from crds import scope
from kb import errors
from kb.code import service
from kb.extract import git_commit as reading
from kb.graph import model, store

MOST_COMMITS = 5000
"""Of one path and kind of change that are read."""
_MOST_PATHS = 50
_FILES = {"creates": "added", "modifies": "modified", "deletes": "deleted"}
_LAST = 1 << 62


@dataclass
class _Found:
    """What is found on the way over the paths: commits by the key of their node."""

    changes: dict[str, tuple[model.Statement, str, str]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    """Those of `touched` whose declarations are known; a rename touches two paths, and is read at the new one."""
    renames: dict[str, api.FileRename] = field(default_factory=dict)
    truncated: bool = False


class History:
    """Of one process."""

    def __init__(self, asks: service.Questions, known: store.Store) -> None:
        self._asks, self._graph = asks, known

    async def ask(self, asked: api.CodeHistory) -> api.HistoryReply:
        """The reply. Raises what `Questions.ask` raises; for a symbol that is not known only where no commit has it."""
        owner, coverage, found = await self._asks.placed(asked)
        if isinstance(found, errors.NotFound):
            path, _, name = asked.symbol.partition(":")
            reply = api.HistoryReply(coverage=coverage, path=path, name=name)
        else:
            reply = api.HistoryReply.model_validate_json(found)
        way = await self._follow(asked.scope, owner, reply)
        if isinstance(found, errors.NotFound) and not way.changes:
            raise found
        ordered = sorted(way.changes.items(), key=lambda pair: (-_ms(pair[1][0]), pair[0]))
        page = ordered[asked.after : asked.after + asked.limit]
        last = asked.after + len(page)
        return reply.model_copy(
            update={
                "commits": await self._shown(asked.scope, page),
                "renames": sorted(way.renames.values(), key=lambda one: (one.path, one.old_path, one.hash)),
                "total": len(ordered),
                "unread": len(way.touched - way.read),
                "truncated": way.truncated,
                "next": last if last < len(ordered) else None,
            }
        )

    async def _follow(self, viewer: scope.Scope, owner: scope.Scope, reply: api.HistoryReply) -> _Found:
        """All commits of the path, and those of the paths that it was renamed from, until then."""
        found, known = _Found(), reply.coverage
        waiting = [(-_LAST, reply.path)]
        seen: set[str] = set()
        while waiting and len(seen) < _MOST_PATHS:
            # The latest bound of a path first, so that each is read once.
            bound, path = heapq.heappop(waiting)
            if path in seen:
                continue
            seen.add(path)
            key = repository_keys.file(path, known.branch, owner.project_id)
            of = known.repository, -bound
            touched: dict[str, tuple[model.Statement, str]] = {}
            for kind, change in _FILES.items():
                for said in await self._said(viewer, kind, key, of, found):
                    touched[said.edge.source if said.edge else ""] = said, change
            for said in await self._said(viewer, "renames", key, of, found):
                assert said.edge is not None
                properties = json.loads(said.properties)
                hash_ = _hash(said)
                found.renames[hash_] = api.FileRename(hash=hash_, **_renamed(properties))
                touched[said.edge.source] = touched.get(said.edge.source, (said, ""))[0], "renamed"
                heapq.heappush(waiting, (-_ms(said), str(properties["oldPath"])))
            if not reply.name:
                for commit, (said, change) in touched.items():
                    found.changes.setdefault(commit, (said, path, change))
                continue
            symbol = repository_keys.symbol(path, reply.name, owner.project_id)
            for said in await self._said(viewer, reading.CHANGES, symbol, of, found):
                assert said.edge is not None
                if said.edge.source in touched:  # a commit of another branch is not
                    change = str(json.loads(said.properties)["change"])
                    found.changes.setdefault(said.edge.source, (said, path, change))
            found.touched |= touched.keys()
            found.read |= {commit for commit, (said, _) in touched.items() if "symbolsRead" in said.properties}
        return found

    async def _said(
        self, viewer: scope.Scope, kind: str, target: str, of: tuple[str, int], found: _Found
    ) -> list[model.Statement]:
        """The commits of the repository that have such an edge, until then."""
        repository, until = of
        rows = await self._graph.relationships(viewer, edge_type=kind, target=target, limit=MOST_COMMITS + 1)
        found.truncated |= len(rows) > MOST_COMMITS
        own = [one for one in rows[:MOST_COMMITS] if any(place.startswith(f"{repository}@") for place in one.places)]
        return [one for one in own if _ms(one) <= until]

    async def _shown(
        self, viewer: scope.Scope, page: Iterable[tuple[str, tuple[model.Statement, str, str]]]
    ) -> list[api.CodeChange]:
        rows = list(page)
        keys = [key for key, _ in rows]
        nodes = {one.key: one for one in await self._graph.nodes(viewer, keys=keys, limit=max(1, len(keys)))}
        shown = []
        for key, (said, path, change) in rows:
            properties = nodes[key].properties if key in nodes else {}
            shown.append(
                api.CodeChange(
                    hash=_hash(said),
                    title=said.document.title,
                    author=str(properties.get("author", "")),
                    date=datetime.fromtimestamp(_ms(said) / 1000, UTC) if said.observed_ms is not None else None,
                    path=path,
                    change=change,
                    source_urn=said.document.source_urn,
                )
            )
        return shown


def _renamed(properties: Mapping[str, object]) -> dict[str, object]:
    return {name: properties[name] for name in ("oldPath", "path", "similarity") if name in properties}


def _hash(said: model.Statement) -> str:
    return said.document.source_urn.rpartition("@")[2]


def _ms(said: model.Statement) -> int:
    return said.observed_ms or 0
