"""Files that were named with --attach."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from cli import errors
from text import mail, printable

File = mail.File


def named(path: str) -> File:
    """A file of the disk. Raises `Unusable`."""
    try:
        body = Path(path).read_bytes()
    except OSError as error:
        raise errors.Unusable(
            f"{path!r} cannot be read: {error.strerror}.", field="--attach", remedy="Name a readable file."
        ) from error
    if not body:
        raise errors.Unusable(f"{path!r} is empty.", field="--attach", remedy="Leave it out.")
    name = mail.file_name(printable.line(path), "attachment")
    return File(name, mimetypes.guess_type(path)[0] or mail.UNKNOWN_TYPE, body)
