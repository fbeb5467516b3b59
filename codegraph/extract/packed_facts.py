"""The facts of files as bytes, as they are stored and sent to the process that resolves a branch."""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Iterator, Sequence

from codegraph.extract import worker
from codegraph.parse.facts import FileFacts, Skipped
from codegraph.resolve import configuration, resolution
from codegraph.resolve.project import Project

_NAME_CHARS, _DEEPEST = 2000, 64


_UNREADABLE = (
    pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, KeyError, TypeError, ValueError
)  # fmt: skip


class UnreadableError(Exception):
    """Stored facts that this version cannot read: another one wrote them."""


def pack(*found: FileFacts | Skipped | configuration.File) -> bytes:
    """All that is known of one file, as `read` takes it; two of them, one behind the other, are one as well."""
    return pickle.dumps(found, pickle.HIGHEST_PROTOCOL)


def read(packed: Sequence[bytes]) -> tuple[Project, tuple[Skipped, ...]]:
    """The project of these files, and those of them that were given up. Raises `UnreadableError`."""
    found = [each for one in packed for each in _unpacked(one)]
    files = {one.path: _plain(one) for one in found if isinstance(one, FileFacts)}
    project = {one.path: one.content for one in found if isinstance(one, configuration.File)}
    return resolution.resolve(files, project), tuple(one for one in found if isinstance(one, Skipped))


def _unpacked(body: bytes) -> Iterator[FileFacts | Skipped | configuration.File]:
    stream = io.BytesIO(body)
    while stream.tell() < len(body):
        try:
            found = worker.Answers(stream).load()
        except _UNREADABLE as error:
            raise UnreadableError(f"{type(error).__name__}: {error}") from None
        yield from found


def _plain(file: FileFacts) -> FileFacts:
    """The file without declarations that no person wrote: each costs the square of its depth."""
    if not hasattr(file, "words"):  # the facts of a version before 4, in the slots of this one
        object.__setattr__(file, "words", ())
    kept = [
        number for number, one in enumerate(file.symbols)
        if len(one.qname) <= _NAME_CHARS and one.qname.count(".") < _DEEPEST
    ]  # fmt: skip
    if len(kept) == len(file.symbols):
        return file
    words = tuple(file.words[number] for number in (*kept, -1)) if file.words else ()
    return dataclasses.replace(file, symbols=tuple(file.symbols[number] for number in kept), words=words)
