"""The facts of many files, read in worker processes; nothing is parsed in the process that asks.

    extract            from a coroutine: the event loop goes on meanwhile
    extract_blocking   from the command line

Threads do not help: parsing holds the GIL. A worker gets a batch of files and answers them one by one; when it ends or
is silent for too long, the file that it was at is skipped and another one takes its place. What is found is in the
order of the paths, whichever worker was first.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from codegraph.extract import selection
from codegraph.extract.budget import DEFAULT, Budget
from codegraph.extract.worker import FRAME, Batch, answer
from codegraph.parse.facts import FileFacts, Reason, Skipped

_SILENCE = 5.0
"""Seconds without an answer; a file that is computed is given up by its CPU time long before."""
_START = 60.0
_BATCH_FILES, _BATCH_BYTES = 16, 512_000
# A worker that ends so often in a row does not start at all.
_STARTS = 3


Pack = Callable[[FileFacts], bytes]
"""What makes bytes of the facts of a file: `codegraph.extract.packed_facts.pack`."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a pass found, by path, what it left out, by path, and how long its worker processes ran together. `packed`
    has what `pack` made of each file, if given, with its path; then `files` is empty."""

    files: tuple[FileFacts, ...]
    skipped: tuple[Skipped, ...]
    packed: tuple[tuple[str, bytes], ...] = ()
    seconds: float = field(default=0.0, compare=False)


class WorkersError(RuntimeError):
    """Worker processes do not start: the installation is broken."""


async def extract(
    sources: Path | dict[str, bytes],
    budget: Budget = DEFAULT,
    *,
    calls: bool = False,
    workers: int = 0,
    pack: Pack | None = None,
) -> Extraction:
    """The facts of a folder, or of contents by path. Cancelled, it ends its workers.

    `calls` asks for what the call resolver needs, `workers` is the number of processes (0: one per processor that this
    process may use). With `pack` the facts of each file are bytes as soon as they are there: millions of objects that
    stay would have the garbage collector, and their end, stop the event loop for tenths of a second. Raises
    WorkersError.
    """
    stop = threading.Event()
    work = asyncio.get_running_loop().run_in_executor(
        None, lambda: extract_blocking(sources, budget, calls=calls, workers=workers, stop=stop, pack=pack)
    )
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        with contextlib.suppress(asyncio.CancelledError, WorkersError):
            await work
        raise


def extract_blocking(
    sources: Path | dict[str, bytes],
    budget: Budget = DEFAULT,
    *,
    calls: bool = False,
    workers: int = 0,
    stop: threading.Event | None = None,
    progress: Callable[[int, int], None] | None = None,
    pack: Pack | None = None,
) -> Extraction:
    """`extract` for a caller without an event loop. `progress` is called with the files read and all of them."""
    began = time.monotonic()
    if isinstance(sources, Path):
        kept, skipped = selection.walk(sources, budget)
    else:
        kept, skipped = selection.given(sources, budget)
    run = _Pass(kept, budget, calls, began + budget.seconds, stop or threading.Event(), progress, pack)
    threads = [
        threading.Thread(target=run.work, name=f"code-{number}", daemon=True)
        for number in range(min(workers or processors(), len(run.batches)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if run.failure:
        raise run.failure
    found = [run.answers.get(index) for index in range(len(kept))]
    files = tuple(one for one in found if isinstance(one, FileFacts))
    left = [one for one in found if isinstance(one, Skipped)]
    late = [Skipped(kept[index].path, Reason.BUDGET_TIME) for index, one in enumerate(found) if one is None]
    packed = tuple((kept[index].path, one) for index, one in enumerate(found) if isinstance(one, bytes))
    left_out = tuple(sorted([*skipped, *left, *late], key=lambda one: one.path))
    return Extraction(files, left_out, packed, sum(run.seconds))


def processors() -> int:
    """The processors that this process may use: its affinity and the quota of its cgroup, at least 1."""
    count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            count = min(count, -(-int(quota) // int(period)))
    return max(1, count)


class _Pass:
    """One pass over the files: the batches that are left, and the answers by the number of the file."""

    def __init__(
        self,
        sources: list[selection.Source],
        budget: Budget,
        calls: bool,
        deadline: float,
        stop: threading.Event,
        progress: Callable[[int, int], None] | None,
        pack: Pack | None,
    ) -> None:
        self.batches = collections.deque(_batches(sources))
        self.answers: dict[int, FileFacts | bytes | Skipped] = {}
        self.failure: WorkersError | None = None
        self.seconds: list[float] = []
        """For how long each thread had a worker process."""
        self._sources = sources
        self._budget = budget
        self._calls = calls
        self._deadline = deadline
        self._stop = stop
        self._progress = progress
        self._pack = pack

    def work(self) -> None:
        """Give batches to one worker process until none is left."""
        began = time.monotonic()
        try:
            self._work()
        except WorkersError as error:
            self.failure = error
            self.batches.clear()
        finally:
            self.seconds.append(time.monotonic() - began)

    def _work(self) -> None:
        worker: _Worker | None = None
        starts = 0
        try:
            while self.batches and not self._is_over():
                if not worker:
                    starts += 1
                    worker = _Worker()
                    if not worker.receive(_START):
                        if starts >= _STARTS:
                            raise WorkersError("worker processes end before they answer")
                        worker.end()
                        worker = None
                        continue
                try:
                    batch = self.batches.popleft()
                except IndexError:
                    return
                starts = 0
                worker = self._give(worker, batch)
        finally:
            if worker:
                worker.end()

    def _give(self, worker: _Worker, batch: range) -> _Worker | None:
        """The answers of a batch; none for a worker that ended over it. What it did not come to is put back."""
        part = Batch(
            tuple(self._sources[number] for number in batch),
            self._calls,
            self._budget.generated,
            self._budget.file_bytes,
        )
        worker.send(pickle.dumps(part, pickle.HIGHEST_PROTOCOL))
        for number in batch:
            if self._is_over():
                worker.end()
                return None
            body = worker.receive(min(_SILENCE, max(0.0, self._deadline - time.monotonic())))
            try:
                found = answer(body[0]) if body else None
            except (pickle.UnpicklingError, TypeError, ValueError, EOFError, AttributeError, ImportError, IndexError):
                found = None
            if found:
                self._add(number, found)
                continue
            if time.monotonic() < self._deadline:
                reason, detail = worker.why()
                self._add(number, Skipped(self._sources[number].path, reason, detail))
            if number + 1 < batch.stop:
                self.batches.appendleft(range(number + 1, batch.stop))
            worker.end()
            return None
        return worker

    def _add(self, number: int, found: FileFacts | Skipped) -> None:
        self.answers[number] = self._pack(found) if self._pack and isinstance(found, FileFacts) else found
        if self._progress:
            self._progress(len(self.answers), len(self._sources))

    def _is_over(self) -> bool:
        return self._stop.is_set() or time.monotonic() > self._deadline


class _Worker:
    """One worker process and its two pipes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "codegraph.extract.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Nothing of this process's own environment, which has its secrets.
            env={"PYTHONPATH": os.pathsep.join(one for one in sys.path if one) or os.getcwd()},
        )
        assert self._process.stdout
        self._pipe = self._process.stdout.fileno()
        # `select.select` takes no file numbers over 1023, which a service with many connections has.
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        self._left = b""

    def send(self, body: bytes) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # that it ended shows when its answer is awaited
            self._process.stdin.write(FRAME.pack(len(body)) + body)
            self._process.stdin.flush()

    def receive(self, seconds: float) -> tuple[bytes] | None:
        """The next frame, if there is one within so many seconds."""
        deadline = time.monotonic() + seconds
        head = self._bytes(FRAME.size, deadline)
        body = self._bytes(FRAME.unpack(head)[0], deadline) if head else None
        return None if body is None else (body,)

    def why(self) -> tuple[Reason, str]:
        """Why it gave no answer, after `receive` found none."""
        if self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)
        code = self._process.poll()
        if code is None:
            return Reason.TIMED_OUT, f"no answer within {_SILENCE:g} s"
        if code == -signal.SIGPROF:
            return Reason.TIMED_OUT, "over its CPU time"
        return Reason.CRASHED, f"the worker ended with {code}"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _bytes(self, count: int, deadline: float) -> bytes | None:
        parts, have = [self._left], len(self._left)
        while have < count:
            ready = self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            got = os.read(self._pipe, 1 << 20) if ready else b""
            if not got:
                return None
            parts.append(got)
            have += len(got)
        whole = b"".join(parts)
        self._left = whole[count:]
        return whole[:count]


def _batches(sources: list[selection.Source]) -> Iterator[range]:
    start = size = 0
    for number, source in enumerate(sources):
        if number > start and (number - start >= _BATCH_FILES or size + source.size > _BATCH_BYTES):
            yield range(start, number)
            start, size = number, 0
        size += source.size
    if start < len(sources):
        yield range(start, len(sources))
