"""The structure of a branch, made known without a model: a document for each source file, one for the branch.

A request names the whole tree. Facts of files that are not stored yet are read from the contents that come with it;
as long as some are missing the reply names them and nothing is written. Then the whole branch is resolved anew, and
the documents that say something else than before are written, those of files that are gone are deleted. So what is
known after a commit is what a rebuild gives, and a kill repeats a part and loses none (decision 0122).
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import pydantic
import structlog

import codegraph
from codegraph import api
from codegraph.branch import analyst, cpg
from codegraph.extract import budget, packed_facts, pool
from codegraph.parse import grammars
from codegraph.parse.facts import FOR_NOW, Reason, Skipped
from codegraph.resolve import configuration
from contracts.api import message
from crds import errors as root
from crds import priority, scope
from kb import api as kb_api
from kb import errors, identity, metrics, visibility
from kb.code import book, pass_figures
from kb.ingest import commit as committing
from kb.ingest import delete, document, document_locks, extractor
from kb.ingest.commits import Code
from kb.rules import enforce

log = structlog.get_logger(__name__)
_PARALLEL = 64
"""Documents in work at once: enough to fill the batches of embeddings."""
WRITES = 500
"""Documents that one request writes and deletes; the caller comes back for the rest."""
_MISSING = 2000
_REASONS = frozenset({*map(str, Reason), "odd-name", "unreadable", "not-taken"})
_BEGUN = "?"
"""In the place of a digest: the document may be there, and with what it says is not known."""
_URN_CHARS = 1024
"""Of `contracts.api.message.Urn`."""
_NOTHING = extractor.ExtractionResult({})


class _Forbidden(errors.Invalid):
    """A hard rule forbids to store a file; it is tried again when other rules are in force."""


@dataclasses.dataclass
class _Round:
    """What one request does: documents to write and paths to delete now, how many of both are left for the next, and
    what the record of the branch has to say of each path."""

    writing: list[analyst.Written]
    deleting: list[str]
    left: int
    digests: dict[str, str]


class Extract(Protocol):
    """`codegraph.extract.pool.extract`, or the same without processes."""

    async def __call__(
        self, sources: dict[str, bytes], bounds: budget.Budget, /, *, calls: bool, pack: pool.Pack
    ) -> pool.Extraction: ...


class Structures:
    """Of one process; `limits` bounds what is read of the contents of one request, which `extract` reads."""

    def __init__(
        self,
        documents: document.Documents,
        deletions: delete.Deletion,
        committer: committing.Committer,
        known: book.Book,
        analysts: analyst.Analyst,
        meters: metrics.Metrics,
        limits: budget.Budget,
        extract: Extract = pool.extract,
    ) -> None:
        self._extract = extract
        self._documents, self._deletion, self._committer = documents, deletions, committer
        self._book, self._analyst = known, analysts
        self._meters, self._limits = meters, limits

    async def take(self, sent: api.GitStructure, urgency: priority.Priority, code_of: Code) -> api.GitStructureReply:
        """What became of the request. Raises an `Operational` error where nothing could be done."""
        owner, repository = sent.scope, sent.repository.path
        # One request of a branch at a time, whichever process has it.
        async with self._documents.writing(
            owner, identity.document(owner, f"structure:{repository}@{sent.branch}")
        ) as turn:
            before = await self._book.branch(owner, repository, sent.branch)
            before = before or book.Branch(repository, sent.branch)
            if sent.host and before.host not in ("", sent.host) and not sent.moved:
                if sent.removed:  # of what it has, nothing is there
                    return api.GitStructureReply(state="Done")
                raise _elsewhere(sent, before)
            # What a process left that ended before it had deleted them.
            await self._book.prune(owner, before.litter)
            before = dataclasses.replace(before, litter=())
            if sent.removed:
                return await self._remove(sent, before, turn, urgency, code_of)
            sent = self._within(sent)
            before = await self._announced(sent, before, turn)
            await self._read(sent)
            return await self._wanted(sent) or await self._write(sent, before, turn, urgency, code_of)

    async def enrich(self, sent: api.Cpg, urgency: priority.Priority, code_of: Code) -> api.CpgReply:
        """Put what Joern says beside the structure of the branch. Raises `errors.Stale` where that is of another commit
        or not known yet, and as `take`."""
        owner, repository = sent.scope, sent.repository.path
        async with self._documents.writing(
            owner, identity.document(owner, f"structure:{repository}@{sent.branch}")
        ) as turn:
            before = await self._book.branch(owner, repository, sent.branch)
            if before is None or not before.tree or not sent.commit == before.commit == before.wanted:
                raise _stale(before, sent.commit)
            tree = api.GitStructure.model_validate_json(before.tree)
            after = before
            if sent.export is not None:
                packed = cpg.pack(sent.export, {one.path: one.blob for one in tree.files})
                named = dataclasses.replace(before, cpg=identity.digest_bytes(packed), analysed=sent.commit)
                after = dataclasses.replace(named, litter=_litter(owner, before, named))
                # Named before it is stored, so that it goes again if this process ends in between.
                await self._book.record(owner, dataclasses.replace(before, litter=_litter(owner, named, before)))
                await self._book.save(owner, book.CPG, [(*named.cpg_file, packed)])
                turn.check()
                await self._book.record(owner, after)
            elif not before.cpg:
                raise errors.Stale("no export is known", field="export", remedy="Send it with the first request.")
            await self._book.prune(owner, after.litter)
            after = dataclasses.replace(after, litter=())
            added: dict[str, int] = {}
            reply = await self._write(tree, after, turn, urgency, code_of, added)
        if reply.state == "Wanted":
            raise _stale(before, sent.commit)
        return api.CpgReply(
            state=reply.state,
            commit=sent.commit,
            left=reply.left,
            stored=reply.stored,
            signatures=added["signatures"],
            calls=added["calls"],
            extends=added["extends"],
            uses_type=added["usesType"],
            unmatched=added["unmatched"],
        )

    async def _announced(self, sent: api.GitStructure, before: book.Branch, turn: document_locks.Turn) -> book.Branch:
        """The record of the branch with the coming tree, before any facts of it: they are found again, and stay while
        other branches let go of theirs."""
        coming = {one.path: one.blob for one in sent.files}
        if before.extractor == codegraph.VERSION and {one.path: one.blob for one in before.files if one.blob} == coming:
            return before
        known = {one.path: one for one in before.files}
        files = tuple(
            dataclasses.replace(known.get(path) or book.Entry(path, ""), coming=coming.get(path, ""))
            for path in sorted(known.keys() | coming.keys())
            if path in coming or known[path].blob or known[path].written
        )
        access = before.access if sent.access is None else tuple(visibility.stored(sent.access))
        host, wanted = sent.host or before.host, sent.commit or ""
        after = dataclasses.replace(
            before, files=files, access=access, wanted=wanted, coming=codegraph.VERSION, host=host
        )
        if after == before:
            return before
        after = dataclasses.replace(after, litter=_litter(sent.scope, before, after))
        turn.check()
        await self._book.record(sent.scope, after)
        return after

    async def _wanted(self, sent: api.GitStructure) -> api.GitStructureReply | None:
        """The answer that names the files whose facts are not stored; None where all are."""
        pairs = [(one.path, one.blob) for one in sent.files]
        known = await self._book.known(sent.scope, codegraph.VERSION, pairs)
        missing = [
            path for path, blob in pairs if book.facts_id(sent.scope, codegraph.VERSION, path, blob) not in known
        ]
        if not missing:
            return None
        return api.GitStructureReply(state="Wanted", commit=sent.commit, missing=missing[:_MISSING])

    def _within(self, sent: api.GitStructure) -> api.GitStructure:
        """With the files that are read: sources and project files, by path, within the budget; the others skipped."""
        kept: list[api.SourceFile] = []
        skipped, total = list(sent.skipped), 0
        for one in sorted(sent.files, key=lambda each: each.path):
            reason = None
            if not (grammars.language_of(one.path) or api.is_project_file(one.path)):
                continue
            if len(sent.repository.file_urn(one.path, sent.branch)) > _URN_CHARS:
                reason = Reason.LONG_NAME
            elif not self._limits.vendored.isdisjoint(one.path.split("/")[:-1]):
                reason = Reason.VENDORED
            elif one.size > self._limits.file_bytes:
                reason = Reason.TOO_LARGE
            elif len(kept) >= self._limits.files:
                reason = Reason.BUDGET_FILES
            elif total + one.size > self._limits.total_bytes:
                reason = Reason.BUDGET_BYTES
            if reason is not None:
                skipped.append(api.SkippedFile(path=one.path, reason=str(reason)))
                continue
            total += one.size
            kept.append(one)
        return sent.model_copy(update={"files": kept, "skipped": skipped})

    async def _read(self, sent: api.GitStructure) -> None:
        """Store the facts of the contents that came, and which of them were given up: none is asked for twice."""
        blobs = {one.path: one.blob for one in sent.files}
        contents = {one.path: one.content.encode() for one in sent.files if one.content is not None}
        if not contents:
            return
        with self._meters.stages.labels("code").time():
            read = await self._extract(contents, self._limits, calls=True, pack=packed_facts.pack)
        pass_figures.count(read, self._meters)
        packed: dict[str, bytes] = defaultdict(bytes, read.packed)
        for one in read.skipped:
            if one.reason not in FOR_NOW:
                packed[one.path] += packed_facts.pack(one)
        for path, body in contents.items():
            if api.is_project_file(path):  # setup.py is a source and a project file
                packed[path] += packed_facts.pack(configuration.File(path, body))
        await self._book.save(
            sent.scope, codegraph.VERSION, [(path, blobs[path], body) for path, body in packed.items()]
        )

    async def _write(
        self,
        sent: api.GitStructure,
        before: book.Branch,
        turn: document_locks.Turn,
        urgency: priority.Priority,
        code_of: Code,
        added: dict[str, int] | None = None,
    ) -> api.GitStructureReply:
        """`added` is filled with what Joern's export adds."""
        files = [(one.path, one.blob) for one in sent.files]
        packed = await self._book.load(sent.scope, codegraph.VERSION, files)
        said = await self._book.load(sent.scope, book.CPG, [before.cpg_file] if before.cpg else [])
        try:
            with self._meters.stages.labels("structure").time(), self._meters.code_resolution.time():
                found = await self._analyst.analyse(sent, packed, b"".join(said))
        except packed_facts.UnreadableError:
            # Whichever they are, their contents are asked for again.
            turn.check()
            await self._book.drop(sent.scope, codegraph.VERSION, files)
            wanted = await self._wanted(sent)
            return wanted or api.GitStructureReply(state="Writing", commit=sent.commit, left=len(files))
        if added is not None:
            added.update(found.added)
        head, *rest = found.documents
        digests = {one.path: one.written for one in before.files if one.written}
        rules = await self._documents.rules(sent.scope)
        under = enforce.in_force(rules)

        def is_known(one: analyst.Written) -> bool:
            return digests.get(one.path) in (one.digest, _forbidden(one.digest, under))

        changed = [one for one in rest if not is_known(one)]
        work = _round(changed, digests, {one.path for one in rest})
        # Before anything is written: a process that ends now leaves no document that the record does not name.
        begun = await self._record(sent, before, found, work, turn, done=False)
        wanted = await self._wanted(sent)
        if wanted is not None:
            # The last branch that had them was changed in between; from now on the record keeps them.
            return wanted
        failed = await self._performed(sent, work, rules, turn, urgency, code_of)
        left = work.left + sum(one.retryable for one in failed)
        if not left and not is_known(head):
            # The branch's own document comes last: it says that the rest is there.
            own = _Round([head], [], 0, work.digests)
            unwritten = await self._performed(sent, own, rules, turn, urgency, code_of)
            left, failed = left + sum(one.retryable for one in unwritten), [*failed, *unwritten]
        after = await self._record(sent, begun, found, work, turn, done=not left)
        await self._book.prune(sent.scope, after.litter)
        for one in sent.skipped if not left and sent.commit != before.commit else ():
            self._meters.code_files.labels(_reason(one.reason)).inc()
        return api.GitStructureReply(
            state="Writing" if left else "Done",
            commit=sent.commit,
            left=left,
            files=found.files,
            symbols=found.symbols,
            calls=found.calls,
            unresolved=found.unresolved,
            stored=len(work.writing) - sum(one.path in {each.path for each in work.writing} for one in failed),
            unchanged=len(rest) - len(changed),
            removed=len(work.deleting) - sum(one.path in work.deleting for one in failed),
            failed=failed,
            skipped=[*sent.skipped, *map(_skipped, found.skipped)],
            extractor=codegraph.VERSION,
        )

    async def _remove(
        self,
        sent: api.GitStructure,
        before: book.Branch,
        turn: document_locks.Turn,
        urgency: priority.Priority,
        code_of: Code,
    ) -> api.GitStructureReply:
        work = _round([], {one.path: one.written for one in before.files if one.written}, set())
        failed = await self._performed(sent, work, [], turn, urgency, code_of)
        left = work.left + sum(one.retryable for one in failed)
        litter = before.facts(sent.scope) | set(before.litter)
        files = tuple(book.Entry(path, "", digest) for path, digest in sorted(work.digests.items()))
        after = dataclasses.replace(before, commit="", coming="", cpg="", files=files, litter=tuple(sorted(litter)))
        turn.check()
        if before.files or litter:
            await self._book.record(sent.scope, after)
            await self._book.prune(sent.scope, litter)
        if not files:
            turn.check()
            await self._book.forget(sent.scope, before.repository, before.name)
        removed = len(work.deleting) - len(failed)
        return api.GitStructureReply(state="Writing" if left else "Done", left=left, removed=removed, failed=failed)

    async def _performed(
        self,
        sent: api.GitStructure,
        work: _Round,
        rules: list[kb_api.Rule],
        turn: document_locks.Turn,
        urgency: priority.Priority,
        code_of: Code,
    ) -> list[api.FileOutcome]:
        """Write and delete, and note in `work.digests` what is there then; what failed. Raises the `Operational` error
        of the first where all failed with one."""
        slots = asyncio.Semaphore(_PARALLEL)
        under = enforce.in_force(rules)
        operational: list[root.Operational] = []

        async def tried(path: str, digest: str, step: Callable[[], Awaitable[None]]) -> api.FileOutcome | None:
            try:
                async with slots:
                    turn.check()
                    await step()
            except root.JervisError as error:
                if isinstance(error, root.Operational):
                    operational.append(error)
                elif isinstance(error, _Forbidden):
                    work.digests[path] = _forbidden(digest, under)
                else:
                    work.digests[path] = digest or _BEGUN  # it fails again as long as it says the same
                return _failed(path, error, code_of)
            if digest:
                work.digests[path] = digest
            else:
                work.digests.pop(path, None)
            return None

        outcomes = await asyncio.gather(
            *(tried(one.path, one.digest, partial(self._store, one, rules, urgency)) for one in work.writing),
            *(tried(path, "", partial(self._delete, sent, path)) for path in work.deleting),
        )
        if outcomes and len(operational) == len(outcomes):
            raise operational[0]
        return [one for one in outcomes if one is not None]

    async def _store(self, one: analyst.Written, rules: list[kb_api.Rule], urgency: priority.Priority) -> None:
        try:
            request = kb_api.IngestRequest.model_validate_json(one.request)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            said = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise errors.Invalid(f"what is known of the file makes no document: {said[:300]}", field="files") from error
        async with self._documents.writing(request.scope, identity.document(request.scope, request.source_urn)) as turn:
            taken = await self._documents.read(request)
            forbidding = (await self._documents.meeting(rules, request, taken.text)).unindexed
            if forbidding:
                await self._deletion.recorded(request.scope, request.source_urn, turn)
                named = ", ".join(f"{rule.rule_key!r} (version {rule.version})" for rule in forbidding[:3])
                raise _Forbidden(f"a hard rule forbids to store it: {named}", field="files")
            made = self._documents.draft(request, taken.text)
            await self._committer.commit(request, made, _NOTHING, urgency, turn)

    async def _delete(self, sent: api.GitStructure, path: str) -> None:
        urn = sent.repository.file_urn(path, sent.branch) if path else sent.repository.branch_urn(sent.branch)
        document_id = identity.document(sent.scope, urn)
        async with self._documents.writing(sent.scope, document_id) as turn:
            await self._deletion.recorded(sent.scope, urn, turn)

    async def _record(
        self,
        sent: api.GitStructure,
        before: book.Branch,
        found: analyst.Analysis,
        work: _Round,
        turn: document_locks.Turn,
        *,
        done: bool,
    ) -> book.Branch:
        """Write what the branch is, `done`, or what it is and what it becomes."""
        now = {one.path: one.blob for one in sent.files}
        blobs = now if done else {one.path: one.blob for one in before.files}
        coming = {} if done else now
        figures = {
            "files": found.files, "symbols": found.symbols, "calls": found.calls, "unresolved": found.unresolved,
        }  # fmt: skip
        skipped = tuple((one.path, one.reason, one.detail) for one in [*sent.skipped, *map(_skipped, found.skipped)])
        first = done or not before.commit
        after = book.Branch(
            before.repository,
            before.name,
            sent.commit or "" if done else before.commit,
            codegraph.VERSION if first else before.extractor,
            sent.committed_at if first else before.observed_at,
            None,
            tuple(
                book.Entry(path, blobs.get(path, ""), work.digests.get(path, ""), coming.get(path, ""))
                for path in sorted(blobs.keys() | coming.keys() | work.digests.keys())
            ),
            skipped if first else before.skipped,
            figures if first else before.figures,
            before.access if sent.access is None else tuple(visibility.stored(sent.access)),
            sent.commit or "",
            sent.branch == sent.repository.default_branch,
            "" if done else codegraph.VERSION,
            host=sent.host or before.host,
            cpg=before.cpg,
            analysed=before.analysed,
            tree=analyst.bare(sent) if done else before.tree,
        )
        after = dataclasses.replace(after, litter=_litter(sent.scope, before, after))
        turn.check()
        await self._book.record(sent.scope, after)
        return after


def _reason(said: str) -> str:
    """As a label: callers have reasons of their own, of which there may be any number."""
    return said if said in _REASONS else "other"


def _litter(owner: scope.Scope, before: book.Branch, after: book.Branch) -> tuple[str, ...]:
    return tuple(sorted((before.facts(owner) | set(before.litter)) - after.facts(owner)))


def _stale(known: book.Branch | None, commit: str) -> errors.Stale:
    """About `branch` where sending the structure of the commit helps, about `commit` where that would bring back an
    earlier or another one."""
    first = "Send it first: POST /api/v1/ingest/git-structure."
    latest = (known.wanted or known.commit) if known else ""
    if not latest:
        return errors.Stale("no structure of the branch is known", field="branch", remedy=first)
    if commit == latest:
        return errors.Stale("the structure of the branch is not written to its end", field="branch", remedy=first)
    return errors.Stale(
        f"the structure of the branch is that of commit {latest}",
        field="commit",
        remedy="Analyse that commit; sending the structure of the other one goes back to it.",
    )


def _forbidden(digest: str, under: str) -> str:
    """In the place of a digest: the document was refused by the rules `under`, and is not there."""
    return f"{digest}!{under}"


def _elsewhere(sent: api.GitStructure, before: book.Branch) -> errors.Invalid:
    return errors.Invalid(
        f"{sent.repository.path} of {before.host} is known in this project, and this one is of {sent.host}: their files"
        " would have the same keys",
        field="host",
        remedy="Give one of the two Connections another projectId, or delete it; where the repository has moved, delete"
        " the Connection of the old host, or send moved.",
    )


def _round(changed: list[analyst.Written], digests: dict[str, str], there: set[str]) -> _Round:
    gone = sorted(path for path in digests if path not in there and path)
    if not there and "" in digests:
        gone.append("")  # the branch itself
    writing = changed[:WRITES]
    deleting = gone[: WRITES - len(writing)]
    left = len(changed) + len(gone) - len(writing) - len(deleting)
    known = digests | dict.fromkeys((*(one.path for one in writing), *deleting), _BEGUN)
    return _Round(writing, deleting, left, known)


def _skipped(one: Skipped) -> api.SkippedFile:
    return api.SkippedFile(path=one.path, reason=str(one.reason), detail=one.detail[:400])


def _failed(path: str, error: root.JervisError, code_of: Code) -> api.FileOutcome:
    field, remedy = getattr(error, "field", None), getattr(error, "remedy", None)
    problem = message.Problem(code=code_of(error), message=error.message, field=field, remedy=remedy)
    return api.FileOutcome(path=path, problem=problem, retryable=isinstance(error, root.Operational))
