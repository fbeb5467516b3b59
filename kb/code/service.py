"""Questions about code for the service: which branch is meant, what it stands on, and the worker that answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import codegraph
from codegraph import api
from codegraph.answer import worker
from codegraph.branch import analyst
from codegraph.extract import packed_facts
from crds import scope
from kb import errors
from kb.code import book

_SHOWN = 20
_TRIES = 3
"""Of a branch that is replaced between the reading of its record and that of its facts."""


class Questions:
    """Of one process."""

    def __init__(self, known: book.Book, analysts: analyst.Analyst) -> None:
        self._book, self._analyst = known, analysts

    async def ask(self, kind: str, asked: api.CodeQuestion) -> str:
        """The reply as JSON. Raises `kb.errors.NotFound` for a branch or a symbol that is not known, `Invalid` for one
        that is not said clearly enough, `codegraph.branch.analyst.MemoryExceeded`, `Stale` for one whose facts another
        version has written."""
        _, _, found = await self._asked(kind, asked)
        if isinstance(found, errors.NotFound):
            raise found
        return found

    async def placed(self, asked: api.CodeHistory) -> tuple[scope.Scope, api.Coverage, str | errors.NotFound]:
        """Whose branch is meant, what is known of it, and the symbol as an `api.HistoryReply` without commits, or why
        there is none. Raises as `ask`."""
        return await self._asked("history", asked)

    async def _asked(
        self, kind: str, asked: api.CodeQuestion
    ) -> tuple[scope.Scope, api.Coverage, str | errors.NotFound]:
        for last in (False,) * _TRIES + (True,):
            owner, branch = await self._branch(asked)
            coverage, found = await self._answered(kind, asked, owner, branch, partly=last)
            if found is not None:
                break
        else:
            raise errors.Away("code", "the worker has lost the branch")
        reply, problem, candidates = found
        if problem:
            return owner, coverage, errors.NotFound(problem, field="symbol", remedy=_remedy(candidates))
        return owner, coverage, reply

    async def _answered(
        self, kind: str, asked: api.CodeQuestion, owner: scope.Scope, branch: book.Branch, *, partly: bool
    ) -> tuple[api.Coverage, tuple[str, str, list[str]] | None]:
        """What is known of the branch, and what the worker answers (`questions.answer`): None where facts of the branch
        are gone, unless it is to be answered `partly` then, by those that are there."""
        coverage = api.Coverage(
            repository=branch.repository,
            branch=branch.name,
            commit=branch.commit,
            current=branch.commit == branch.wanted and branch.extractor == codegraph.VERSION,
            observed_at=branch.observed_at,
            updated_at=branch.updated_at,
            files=branch.figures.get("files", 0),
            calls=branch.figures.get("calls", 0),
            unresolved=branch.figures.get("unresolved", 0),
            skipped=worker.skipped(branch.skipped),
            extractor=branch.extractor,
            analysed=branch.analysed,
        )
        held = _held(owner, branch)
        what = (branch.name, owner.project_id)
        more = (kind, asked.model_dump_json(by_alias=True))
        found = await self._analyst.run(worker.answer, held, *what, None, *more, _json(coverage))
        if found is not None:
            return coverage, found
        files = [(one.path, one.blob) for one in branch.files if one.blob]
        packed = await self._book.load(owner, branch.extractor, files)
        if len(packed) < len(files):
            # The branch was written anew since its record was read, and these facts went: the new record is answered
            # from. If it is the same still, they went with another branch, and its next commit sends them again.
            if not partly:
                return coverage, None
            held, coverage = f"{held}|{branch.updated_at}", coverage.model_copy(update={"current": False})
        said = await self._book.load(owner, book.CPG, [branch.cpg_file]) if branch.cpg else []
        if branch.cpg and not said:
            held = f"{held}|{branch.updated_at}"
        stored = (packed, b"".join(said), files)
        try:
            return coverage, await self._analyst.run(worker.answer, held, *what, stored, *more, _json(coverage))
        except packed_facts.UnreadableError as error:
            raise errors.Stale(
                f"another version of the knowledge base has read the branch (extractor {branch.extractor})",
                field="branch",
                remedy="It is read anew with its next commit, or by POST /api/v1/ingest/git-structure.",
            ) from error

    async def _branch(self, asked: api.CodeQuestion) -> tuple[scope.Scope, book.Branch]:
        found = await self._book.visible(asked.scope, asked.repository, asked.branch or "")
        whole = [one for one in found if one[1].commit]
        if not whole:
            raise errors.NotFound(
                "no code of that repository and branch is known in this scope",
                field="branch" if asked.branch else "repository",
                remedy="It becomes known by a Git Connection, or by POST /api/v1/ingest/git-structure.",
            )
        # Other projects of the group may have branches of these names; the question's own project comes first.
        own = [one for one in whole if asked.scope.project_id and one[0].project_id == asked.scope.project_id]
        whole = own or whole
        repositories = sorted({one.repository for _, one in whole})
        if len(repositories) > 1:
            raise _unclear("repository", repositories)
        owners = sorted({one.project_id or one.group_id or one.client_id for one, _ in whole})
        if len(owners) > 1:
            raise _unclear("scope.projectId", owners)
        if len(whole) > 1:
            default = [one for one in whole if one[1].default]
            if len(default) != 1:
                raise _unclear("branch", [one.name for _, one in whole])
            whole = default
        [(owner, branch)] = whole
        with_files = await self._book.branch(owner, branch.repository, branch.name)
        shown = with_files is not None and book.shows(asked.scope, with_files)
        if with_files is None or not with_files.commit or not shown:
            raise errors.NotFound("the branch has just been removed", field="branch", remedy="Name another one.")
        return owner, with_files


def _held(owner: scope.Scope, branch: book.Branch) -> str:
    """Names all that a branch's index is made of; it stays the same where nothing but a record was written."""
    tree = sorted((one.path, one.blob) for one in branch.files if one.blob)
    about = (owner.model_dump(mode="json"), branch.repository, branch.name, branch.extractor, tree, branch.cpg)
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


def _json(coverage: api.Coverage) -> str:
    return coverage.model_dump_json(by_alias=True)


def _unclear(field: str, names: Sequence[str]) -> errors.Invalid:
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return errors.Invalid(f"several are known: {shown}", field=field, remedy=f"Name the {field} that is meant.")


def _remedy(candidates: Sequence[str]) -> str:
    if not candidates:
        return "Use a name of `where` or of the map, or PATH:NAME."
    return f"Name one of: {', '.join(candidates)}"
