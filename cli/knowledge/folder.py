"""The files of a folder as documents: which are taken, how each is named and dated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cli import errors

# Read as they are; everything else is given to the service, which finds out by the content what it is.
_TEXT = frozenset({".md", ".txt", ".rst", ".adoc", ".log", ".csv", ".json", ".yaml", ".yml", ".org", ".tex"})
_SNIFFED = 4096


@dataclass(frozen=True)
class File:
    """A file of the folder. `urn` names it by its path within the folder, so that a second ingest replaces it."""

    path: Path
    urn: str
    title: str
    modified_at: datetime
    size: int

    def text(self) -> str | None:
        """The content, where the file is text; None for anything else."""
        if self.path.suffix.lower() not in _TEXT:
            return None
        raw = self.path.read_bytes()
        return None if b"\0" in raw[:_SNIFFED] else raw.decode("utf-8", "replace")


def files(folder: Path, *, max_bytes: int) -> tuple[list[File], list[tuple[Path, str]]]:
    """What is taken, by name, and what is not, with the reason. Hidden files and links are passed over.

    Raises `Unusable` when the folder is none.
    """
    if not folder.is_dir():
        raise errors.Unusable(f"{folder} is not a folder.", field="FOLDER", remedy="Give the path of a folder.")
    taken: list[File] = []
    skipped: list[tuple[Path, str]] = []
    for path in _walk(folder):
        status = path.stat()
        if status.st_size == 0:
            skipped.append((path, "it is empty"))
        elif status.st_size > max_bytes:
            skipped.append((path, f"it is larger than {max_bytes} bytes"))
        else:
            inside = path.relative_to(folder).as_posix()
            modified = datetime.fromtimestamp(status.st_mtime, UTC)
            taken.append(File(path, f"file::{folder.resolve().name}/{inside}", inside, modified, status.st_size))
    return taken, skipped


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place) / name
            if not name.startswith(".") and path.is_file() and not path.is_symlink():
                yield path
