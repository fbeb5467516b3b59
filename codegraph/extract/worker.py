"""The program of a worker process, which `codegraph.extract.pool` starts and bounds.

    python -m codegraph.extract.worker < batches > answers

Sources are hostile and grammars are written in C: what they break is this process, which has no secrets in its
environment. It announces itself with an empty frame, then reads frames (a big-endian 32-bit length and a pickle of
`Batch`) and answers each file of a batch with a frame of its own, in order: `FileFacts` or `Skipped`. The kernel ends
it when one file takes too much CPU time, also inside of a grammar.
"""

from __future__ import annotations

import io
import os
import pickle
import resource
import signal
import struct
import sys
from dataclasses import dataclass
from typing import BinaryIO

from codegraph.extract import selection
from codegraph.parse import extraction, parsing
from codegraph.parse.facts import FileFacts, Reason, Skipped
from codegraph.resolve import calls

FRAME = struct.Struct(">I")
SECONDS = 0.8
"""CPU time for one file, after which the kernel ends the process; parsing gives up before (`parse.parsing`)."""
_MEMORY = 2 << 30


@dataclass(frozen=True, slots=True)
class Batch:
    """Files to read one after the other. `calls` asks for what the call resolver collects, `generated` for generated
    files, `largest` is the size that a file may have grown to."""

    sources: tuple[selection.Source, ...]
    calls: bool
    generated: bool
    largest: int


def main(requests: BinaryIO, answers: BinaryIO) -> int:
    """Answer batches until their stream ends; the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _send(answers, b"")
    while frame := requests.read(FRAME.size):
        batch: Batch = pickle.loads(requests.read(*FRAME.unpack(frame)))  # noqa: S301 -- from the parent process
        for source in batch.sources:
            # No handler: the default action works while C code runs.
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            answer = pickle.dumps(read(source, batch), pickle.HIGHEST_PROTOCOL)
            signal.setitimer(signal.ITIMER_PROF, 0)
            _send(answers, answer)
    return 0


def _send(answers: BinaryIO, body: bytes) -> None:
    answers.write(FRAME.pack(len(body)) + body)
    answers.flush()


def read(source: selection.Source, batch: Batch) -> FileFacts | Skipped:
    """The facts of one file, or why there are none."""
    try:
        raw = source.raw if source.raw is not None else _file(source.place or "", batch.largest)
        refused = selection.refusal(source.path, raw, generated=batch.generated)
        if refused:
            return refused
        return extraction.extract(source.path, raw, source.language, calls.facts if batch.calls else None)
    except parsing.ExpiredError as error:
        return Skipped(source.path, Reason.TIMED_OUT, str(error))
    except parsing.UnparsableError as error:
        return Skipped(source.path, Reason.BINARY, str(error))
    except OSError as error:
        return Skipped(source.path, Reason.UNREADABLE, error.strerror or "")
    except MemoryError:
        return Skipped(source.path, Reason.CRASHED, "out of memory")


def _file(place: str, largest: int) -> bytes:
    # It may have become a link or a pipe since it was listed.
    with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
        return opened.read(largest)


_PLAIN = ("codegraph.parse.facts", "codegraph.resolve.calls", "codegraph.resolve.configuration")


class Answers(pickle.Unpickler):
    """Reads what a worker answered. It may be broken by what it read, so only plain data of this package is taken."""

    def find_class(self, module: str, name: str) -> object:
        """A dataclass or enum that a module of this package defines. Raises pickle.UnpicklingError for all else."""
        if module.startswith(_PLAIN):
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no answer of a worker")


def answer(body: bytes) -> FileFacts | Skipped:
    """The answer in a frame. Raises pickle.UnpicklingError, and TypeError when it is none."""
    found = Answers(io.BytesIO(body)).load()
    if not isinstance(found, FileFacts | Skipped):
        raise TypeError("no answer of a worker")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.stdin.buffer, sys.stdout.buffer))
