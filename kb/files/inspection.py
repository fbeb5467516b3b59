"""Whether a file may be opened: archives that inflate, mails within mails, macros. Pure; nothing is inflated here.

The directory of an archive is read, not its content. What lies in its directory about its size meets Tika's own limits
on the ratio, the memory and the time of the process that parses it.
"""

from __future__ import annotations

import email.parser
import email.policy
import io
import re
import zipfile
from dataclasses import dataclass
from email.message import Message

from kb import errors
from kb.files import sniff

_MACROS = re.compile(r"(?:^|/)(?:vbaProject\.bin|vbaData\.xml)$|(?:^|/)activeX/", re.I)
_ARCHIVE = re.compile(r"\.(?:zip|jar|7z|rar|gz|bz2|xz|tar|tgz|docm|xlsm|pptm)$", re.I)
_BOUNDARY = re.compile(rb"\bboundary\s*=|message/rfc822", re.I)


@dataclass(frozen=True)
class Limits:
    """`inflated` in bytes; `ratio` of inflated to packed size, for an archive of more than `small` inflated bytes."""

    entries: int = 5_000
    inflated: int = 256 << 20
    ratio: int = 200
    small: int = 8 << 20
    nesting: int = 5
    parts: int = 500


def check(body: bytes, kind: sniff.Type, limits: Limits) -> None:
    """Raises `kb.errors.TooLarge` or `kb.errors.Invalid` saying which limit it breaks."""
    if kind.zipped:
        _archive(body, limits)
    elif kind is sniff.Type.EML:
        _mail(body, limits)
    elif kind is sniff.Type.MSG and b"_\0V\0B\0A\0_\0" in body:
        raise _macros()


def _archive(body: bytes, limits: Limits) -> None:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        entries = archive.infolist()
    if len(entries) > limits.entries:
        raise _hostile(f"the archive has {len(entries)} entries, at most {limits.entries} are opened")
    inflated = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    if inflated > limits.inflated:
        raise _hostile(f"the archive inflates to {inflated} bytes, at most {limits.inflated} are opened")
    if inflated > limits.small and inflated > limits.ratio * max(packed, 1):
        raise _hostile(f"the archive inflates to more than {limits.ratio} times its size")
    if packed > len(body):
        raise _hostile("the entries of the archive overlap")
    for entry in entries:
        if entry.flag_bits & 0x1:
            raise errors.Invalid("the file is encrypted", field="body", remedy="Send it without a password.")
        if _MACROS.search(entry.filename):
            raise _macros()
        if _ARCHIVE.search(entry.filename):
            raise _hostile(f"the archive holds another archive ({entry.filename[:100]!r})")


def _mail(body: bytes, limits: Limits) -> None:
    # Counted before anything is parsed: a parser recurses where a regular expression does not.
    if len(_BOUNDARY.findall(body)) > limits.parts:
        raise _hostile(f"the mail has more than {limits.parts} parts")
    message = email.parser.BytesParser(policy=email.policy.compat32).parsebytes(body)
    waiting: list[tuple[Message, int]] = [(message, 0)]
    count = 0
    while waiting:
        part, depth = waiting.pop()
        count += 1
        if depth > limits.nesting:
            raise _hostile(f"the mail holds mails within mails, more than {limits.nesting} deep")
        if count > limits.parts:
            raise _hostile(f"the mail has more than {limits.parts} parts")
        if part.is_multipart():
            deeper = depth + (part.get_content_type() == "message/rfc822")
            waiting += [(inner, deeper) for inner in part.get_payload() if isinstance(inner, Message)]


def _hostile(reason: str) -> errors.TooLarge:
    return errors.TooLarge(reason, field="body", remedy="Take it apart and send the parts that matter.")


def _macros() -> errors.Invalid:
    return errors.Invalid("the document has macros", field="body", remedy="Save it without macros and send that.")
