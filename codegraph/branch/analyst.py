"""A branch as a whole, made in a worker process: what leads from file to file, and the documents that say so.

    Analyst.analyse     facts of files, packed -> the documents of the branch
    analyse             the same in the worker

A branch of thousands of files takes seconds; in the process of the service they would stall its event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import resource
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import process
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import TypeVar

from codegraph import api
from codegraph.branch import cpg, documents
from codegraph.extract import packed_facts
from codegraph.parse.facts import Skipped
from codegraph.resolve.project import Project
from crds import errors

_Result = TypeVar("_Result")
SECONDS = 300.0
"""Of one branch, after which the worker is ended."""
MEMORY = 2 << 30
"""Bytes of address space that the worker may have."""


class Overrun(errors.Operational):
    """The worker did not answer in time, or ended."""


class MemoryExceeded(errors.Permanent):
    """The branch needs more memory than the worker may have."""


@dataclass(frozen=True, slots=True)
class Written:
    """A document: the path of its file ('': that of the branch), a digest of all it says, the request as JSON."""

    path: str
    digest: str
    request: bytes


@dataclass(frozen=True, slots=True)
class Analysis:
    """The documents of a branch by path, that of the branch first, and what it consists of."""

    documents: tuple[Written, ...]
    skipped: tuple[Skipped, ...]
    files: int
    symbols: int
    calls: int
    unresolved: int
    added: Mapping[str, int] = field(default_factory=dict)
    """By Joern's export: `codegraph.branch.cpg.merge`."""


class Analyst:
    """One worker process, started on its first use and again after it was ended. Not for several event loops.

    It may take `seconds` for one call and have `memory` bytes of address space: what needs more ends it, and the
    service goes on.
    """

    def __init__(self, *, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._seconds, self._memory = seconds, memory
        self._pool: futures.ProcessPoolExecutor | None = None
        # One call at a time: what ends the worker takes no other call with it, and none is ended for another's time.
        self._turn = asyncio.Lock()

    async def analyse(self, sent: api.GitStructure, packed: Sequence[bytes], cpg_: bytes = b"") -> Analysis:
        """The documents of the branch `sent`, of whose files this is known (`packed`), with what Joern says (`cpg_`,
        as `codegraph.branch.cpg.pack` gives it). Raises what `run` raises."""
        return await self.run(analyse, bare(sent), tuple(packed), cpg_)

    async def run(self, work: Callable[..., _Result], *arguments: object) -> _Result:
        """Run a function of a module in the worker; once more, in a new one, where the worker ended or had no memory
        left. Raises `Overrun`, and `MemoryExceeded` where the work alone needs more memory than there is."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._turn.acquire()
        except TimeoutError as error:
            raise Overrun("other questions keep the worker busy", retry_after=60.0) from error
        try:
            with contextlib.suppress(process.BrokenProcessPool, MemoryError):
                return await self._once(work, *arguments)
            # It may have ended before, without a call, and have been full of other branches.
            return await self._once(work, *arguments)
        except MemoryError as error:
            raise MemoryExceeded(
                f"the branch needs more memory than the {self._memory >> 20} MiB that are for code",
                field="branch",
                remedy="Raise JERVIS_KB_CODE_MEMORY_BYTES (kb.settings.codeMemoryBytes of the chart) and the memory of"
                " the pods, or lower JERVIS_KB_CODE_FILES.",
            ) from error
        except (TimeoutError, process.BrokenProcessPool) as error:
            said = f"the branch took longer than {self._seconds:g} s, or ended its worker"
            raise Overrun(said, retry_after=60.0) from error
        finally:
            self._turn.release()

    async def _once(self, work: Callable[..., _Result], *arguments: object) -> _Result:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = futures.ProcessPoolExecutor(1, context, initializer=_begin, initargs=(self._memory,))
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        except (TimeoutError, process.BrokenProcessPool, MemoryError):
            self.close()
            raise

    def close(self) -> None:
        """End the worker."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            for child in (pool._processes or {}).values():  # it may be busy for minutes, and has nothing to lose
                child.kill()
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(memory: int) -> None:
    """In the worker: keep to its memory, and end with the service. Its queue stays open when that is killed, as the
    worker has both ends."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait(sentinel: int) -> None:
            connection.wait([sentinel])
            os._exit(1)

        threading.Thread(target=wait, args=(parent.sentinel,), daemon=True).start()


def bare(sent: api.GitStructure) -> str:
    """The request without the contents of files, as JSON."""
    files = [one.model_copy(update={"content": None}) for one in sent.files]
    return sent.model_copy(update={"files": files}).model_dump_json(by_alias=True, exclude_none=True)


def enriched(project: Project, cpg_: bytes, blobs: Mapping[str, str]) -> tuple[Project, Counter[str]]:
    """The project with what Joern says of its files, if it says anything."""
    return cpg.merge(project, cpg_, blobs) if cpg_ else (project, Counter())


def analyse(sent_json: str, packed: Sequence[bytes], cpg_: bytes = b"") -> Analysis:
    """In the worker: see `Analyst.analyse`."""
    sent = api.GitStructure.model_validate_json(sent_json)
    whole, given_up = packed_facts.read(packed)
    whole, added = enriched(whole, cpg_, {one.path: one.blob for one in sent.files})
    made = documents.Documents(sent, whole)
    left = [
        *sent.skipped,
        *(api.SkippedFile(path=one.path, reason=str(one.reason), detail=one.detail[:400]) for one in given_up),
    ]
    requests = [("", made.branch(left)), *((path, made.file(path)) for path in sorted(whole.files))]
    written = tuple(Written(path, documents.digest(one), one) for path, one in requests)
    symbols = sum(len(file.symbols) for file in whole.files.values())
    calls = whole.calls
    return Analysis(written, given_up, len(whole.files), symbols, len(calls.edges), len(calls.unresolved), added)
