"""The declarations that commits changed, read from the contents that came with them, in worker processes.

One pass for all commits of a request, in which each content is read once, whichever commits have it; what the pass has
no time for stays unread, and is read when the commit is sent again.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence

import codegraph
from codegraph.extract import budget, pool
from codegraph.parse import changes, grammars
from codegraph.parse.facts import FOR_NOW, FileFacts, Skipped
from kb import api, metrics
from kb.code import pass_figures
from kb.extract.git_commit import Read

SECONDS = 30.0
"""Of the pass of one request."""
_ALONE = 64
"""Contents that one worker process reads: a second one would take longer to start."""


class Symbols:
    """Of one process; `limits` bounds what one request has read. With none of files nothing is read."""

    def __init__(self, limits: budget.Budget, meters: metrics.Metrics) -> None:
        self._limits = dataclasses.replace(limits, seconds=min(limits.seconds, SECONDS))
        self._meters = meters

    def readable(self, commit: api.Commit, contents: Mapping[str, str]) -> list[api.CommitFile]:
        """The files of a commit whose declarations before and after it can be read."""
        if not self._limits.files:
            return []
        known = ((one, _sides(one, commit)) for one in commit.files)
        return [one for one, sides in known if sides is not None and all(blob in contents for blob, _ in sides)]

    async def read(self, commits: Sequence[api.Commit], contents: Mapping[str, str]) -> dict[str, dict[str, Read]]:
        """By the hash of the commit and the path of the file; without what there was no time for."""
        wanted = [(commit, one) for commit in commits for one in self.readable(commit, contents)]
        sources = {
            _name(blob, path): contents[blob].encode("utf-8", "surrogatepass")
            for commit, one in wanted
            for blob, path in _sides(one, commit) or ()
        }
        found: dict[str, FileFacts | Skipped] = {}
        if sources:
            with self._meters.stages.labels("symbols").time():
                read = await pool.extract(sources, self._limits, workers=0 if len(sources) > _ALONE else 1)
            found = {one.path: one for one in read.files} | {one.path: one for one in read.skipped}
            pass_figures.count(read, self._meters)
        return await asyncio.to_thread(_compared, wanted, found, contents)


def _compared(
    wanted: Sequence[tuple[api.Commit, api.CommitFile]],
    found: Mapping[str, FileFacts | Skipped],
    contents: Mapping[str, str],
) -> dict[str, dict[str, Read]]:
    made: dict[str, dict[str, Read]] = {}
    for commit, one in wanted:
        sides = [found[_name(blob, path)] for blob, path in _sides(one, commit) or ()]
        if any(isinstance(side, Skipped) and side.reason in FOR_NOW for side in sides):
            continue
        changed: tuple[changes.Change, ...] = ()
        if sides and not any(isinstance(side, Skipped) for side in sides):
            changed = changes.between(
                _side(found, contents, one.old_blob, one.old_path or one.path),
                _side(found, contents, one.blob, one.path),
            )
        made.setdefault(commit.hash, {})[one.path] = Read(codegraph.VERSION, changed)
    return made


def _sides(one: api.CommitFile, commit: api.Commit) -> list[tuple[str, str]] | None:
    """(blob, path) of the contents that say what changed, [] where nothing did; None where that is not known.

    What a merge has from its other parents was changed by their commits.
    """
    if grammars.language_of(one.path) is None:
        return None
    if len(commit.parents) > 1 or (one.blob is not None and one.blob == one.old_blob):
        return []
    before, after = one.old_blob, one.blob
    if (before is None) != (one.status == "A") or (after is None) != (one.status == "D"):
        return None
    sides = ((before, one.old_path or one.path), (after, one.path))
    # What was no source before it was renamed declared nothing.
    return [(blob, path) for blob, path in sides if blob is not None and grammars.language_of(path) is not None]


def _side(
    found: Mapping[str, FileFacts | Skipped], contents: Mapping[str, str], blob: str | None, path: str
) -> changes.Side | None:
    facts = found.get(_name(blob, path)) if blob is not None else None
    return changes.Side(facts, contents[blob or ""]) if isinstance(facts, FileFacts) else None


def _name(blob: str, path: str) -> str:
    return f"{blob}/{path}"
