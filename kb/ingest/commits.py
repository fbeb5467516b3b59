"""Commits of a repository, made known without a model: a document each, many at once, so that embeddings are batched.

The declarations that a commit changed are read once, by the contents that came with it, and stay known when it
is sent again without them.

What is known of a commit is replaced as a whole in one write to the graph, with its document's turn held. There is no
intent record: the caller has the outcome of each commit, and repeats those that failed; what a process that ended left
in the vectors is noted as changed, and is repaired or goes when the stores are compared (decision 0114).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

import codegraph
from crds import errors as root
from crds import priority
from kb import api, identity, metrics, visibility
from kb.extract import draft
from kb.extract import git_commit as reading
from kb.graph import model
from kb.ingest import commit as committing
from kb.ingest import delete, document, extractor, redraft, symbols

log = structlog.get_logger(__name__)
_PARALLEL = 64
"""Commits of one request that are in work at once: enough to fill the batches of embeddings."""
_UNREAD = reading.Read("")
_NOTHING = extractor.ExtractionResult({})
Code = Callable[[root.JervisError], str]
"""The code of the answer that an error becomes."""


class Commits:
    """Of one process; `code` names errors as answers do."""

    def __init__(
        self,
        stores: document.Stores,
        documents: document.Documents,
        deletions: delete.Deletion,
        committer: committing.Committer,
        meters: metrics.Metrics,
        reader: symbols.Symbols,
    ) -> None:
        self._symbols = reader
        self._stores = stores
        self._documents = documents
        self._deletion = deletions
        self._committer = committer
        self._meters = meters

    async def take(self, sent: api.GitCommits, urgency: priority.Priority, code_of: Code) -> api.GitCommitsReply:
        """The outcome of each commit. Raises the `Operational` error of the first where all failed with one."""
        rules = await self._documents.rules(sent.scope)
        changed = await self._changed(sent)
        slots = asyncio.Semaphore(_PARALLEL)
        failures: list[root.Operational] = []

        async def tried(hash_: str, work: Awaitable[api.CommitOutcome]) -> api.CommitOutcome:
            try:
                async with slots:
                    outcome = await work
            except root.JervisError as error:
                if isinstance(error, root.Operational):
                    failures.append(error)
                outcome = _failed(sent, hash_, error, code_of)
            self._meters.commits.labels(outcome.result.lower()).inc()
            return outcome

        outcomes = await asyncio.gather(
            *(
                tried(one.hash, self._store(sent, one, rules, urgency, changed.get(one.hash, {})))
                for one in sent.commits
            ),
            *(tried(one, self._remove(sent, one, urgency)) for one in sent.removed),
        )
        if len(failures) == len(outcomes):
            raise failures[0]
        return api.GitCommitsReply(outcomes=outcomes)

    async def _changed(self, sent: api.GitCommits) -> dict[str, dict[str, reading.Read]]:
        """The declarations that the commits changed, of those whose contents came and are not read yet."""
        due = [(one, files) for one in sent.commits if (files := self._symbols.readable(one, sent.contents))]

        async def unread(one: api.Commit, files: Sequence[api.CommitFile]) -> bool:
            present = await self._present(sent, one.hash)
            known = reading.symbols(present.given) if present is not None else {}
            return any(known.get(file.path, _UNREAD).extractor != codegraph.VERSION for file in files)

        are = await asyncio.gather(*(unread(*each) for each in due))
        return await self._symbols.read([one for (one, _), is_ in zip(due, are, strict=True) if is_], sent.contents)

    async def _present(self, sent: api.GitCommits, hash_: str) -> model.Version | None:
        document_id = identity.document(sent.scope, sent.repository.source_urn(hash_))
        return _present(await self._stores.graph.versions(sent.scope, document_id))

    async def _store(
        self,
        sent: api.GitCommits,
        one: api.Commit,
        rules: list[api.Rule],
        urgency: priority.Priority,
        changed: Mapping[str, reading.Read],
    ) -> api.CommitOutcome:
        urn = sent.repository.source_urn(one.hash)
        document_id = identity.document(sent.scope, urn)
        async with self._documents.writing(sent.scope, document_id) as turn:
            present = _present(await self._stores.graph.versions(sent.scope, document_id))
            known = reading.branches(present.given) if present is not None else []
            before = reading.symbols(present.given) if present is not None else {}
            found = {**before, **changed}
            request, omitted = reading.document(sent, one, sorted({*known, sent.branch}), found)
            taken = await self._documents.read(request)
            forbidding = (await self._documents.meeting(rules, request, taken.text)).unindexed
            if forbidding:
                await self._deletion.recorded(sent.scope, urn, turn)
                return _left_out(one.hash, urn, forbidding)
            made = self._documents.draft(request, taken.text)
            counted = {"chunks": len(made.pieces), "edges": len(made.given.relationships), "omitted": omitted}
            counted["symbols"] = sum(edge.type == reading.CHANGES for edge in made.given.relationships)
            if present is not None and _same(present, made, sent):
                return api.CommitOutcome(hash=one.hash, source_urn=urn, result="Unchanged", **counted)
            await self._committer.commit(request, made, _NOTHING, urgency, turn)
            result: api.CommitResult = "Stored" if present is None else "Updated"
            return api.CommitOutcome(hash=one.hash, source_urn=urn, result=result, **counted)

    async def _remove(self, sent: api.GitCommits, hash_: str, urgency: priority.Priority) -> api.CommitOutcome:
        urn = sent.repository.source_urn(hash_)
        document_id = identity.document(sent.scope, urn)
        async with self._documents.writing(sent.scope, document_id) as turn:
            present = _present(await self._stores.graph.versions(sent.scope, document_id))
            known = reading.branches(present.given) if present is not None else []
            if present is None or sent.branch not in known:
                return api.CommitOutcome(hash=hash_, source_urn=urn, result="Absent")
            if known == [sent.branch]:
                await self._deletion.recorded(sent.scope, urn, turn)
                return api.CommitOutcome(hash=hash_, source_urn=urn, result="Forgotten")
            request, made = await self._without(sent, document_id, present)
            await self._committer.commit(request, made, _NOTHING, urgency, turn)
            return api.CommitOutcome(
                hash=hash_,
                source_urn=urn,
                result="Removed",
                chunks=len(made.pieces),
                edges=len(made.given.relationships),
            )

    async def _without(
        self, sent: api.GitCommits, document_id: str, present: model.Version
    ) -> tuple[api.IngestRequest, draft.Draft]:
        """The stored commit as the branches have it that stay."""
        stored = await self._stores.vectors.chunks(sent.scope, present.chunk_ids)
        request, made = redraft.rebuild_draft(sent.scope, document_id, list(stored.values()), present.given)
        return request, draft.given_to(made, reading.without(made.given, sent.branch, sent.scope))


def _present(versions: Sequence[model.Version]) -> model.Version | None:
    return next((one for one in versions if one.document.until_ms is None), None)


def _same(present: model.Version, made: draft.Draft, sent: api.GitCommits) -> bool:
    told = visibility.in_labels(present.labels)
    seen = sent.access is None or set(visibility.stored(told)) == set(visibility.stored(sent.access))
    return seen and present.given == made.given.text and set(present.chunk_ids) == {piece.id for piece in made.pieces}


def _left_out(hash_: str, urn: str, forbidding: Sequence[api.RuleActed]) -> api.CommitOutcome:
    named = ", ".join(f"{one.rule_key!r} (version {one.version})" for one in forbidding[:3])
    problem = api.Problem(code="left_out", message=f"a hard rule forbids to store it: {named}")
    return api.CommitOutcome(hash=hash_, source_urn=urn, result="LeftOut", problem=problem)


def _failed(sent: api.GitCommits, hash_: str, error: root.JervisError, code_of: Code) -> api.CommitOutcome:
    field, remedy = getattr(error, "field", None), getattr(error, "remedy", None)
    return api.CommitOutcome(
        hash=hash_,
        source_urn=sent.repository.source_urn(hash_),
        result="Failed",
        problem=api.Problem(code=code_of(error), message=error.message, field=field, remedy=remedy),
        retryable=isinstance(error, root.Operational),
    )
