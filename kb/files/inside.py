"""Images that stand in a mail or a page itself: parts of a MIME message, and `data:` URIs. Pure.

    Content-Type: image/png; name="error.png"           Content-Type: image/png; name="error.png"
    Content-Transfer-Encoding: base64              ->   Content-Transfer-Encoding: base64

    iVBORw0KGgoAAAANSUhEUgAA...                         [image: error~inside-0f1e2d3c4b5a6978.png]

They are taken out of the text, where they are noise to every reader, and the text names them in their places. What is
named by an http address is never fetched. Their names follow from their bytes and what the sender calls them, so the
same document always has the same ones. One pass over the text; its time grows with the length alone.
"""

from __future__ import annotations

import binascii
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email import errors as mail_errors
from email.header import decode_header, make_header
from urllib.parse import unquote

from pydantic import Field

from crds import errors as root
from kb import api, identity
from kb.files import image

_MARK = "~inside-"
_NAMED = re.compile(rf".+{_MARK}[0-9a-f]{{16}}\.(?:png|jpg|gif|webp)")
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}

_DATA = re.compile(r"data:image/[a-z0-9.+-]{1,40}(?:;[a-z0-9=_.-]{1,60}){0,3}?;base64,", re.IGNORECASE)
_PAYLOAD = re.compile(r"[A-Za-z0-9+/=_%-]*+")
_QUOTED = re.compile(r"[A-Za-z0-9+/=_%\s-]*+")
# Shorter ones are examples of how such a URI looks.
_LEAST_CHARS = 40

_HEADED = re.compile(r"\s{0,100}[A-Za-z][A-Za-z0-9-]{0,60}:")
_PART = re.compile(r"^content-type:[ \t]*image/", re.IGNORECASE | re.MULTILINE)
_ENCODED = re.compile(r"^content-transfer-encoding:[ \t]*base64[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_HEAD_CHARS, _HEAD_LINES = 4096, 40
# As many as `kb.files.inspection` takes of a mail; each costs a look at its header.
_PARTS = 500
_SAID = 10
_BODY = re.compile(r"\r?\n[ \t]*\r?\n")
_LINES = re.compile(r"(?:[A-Za-z0-9+/=]++[ \t]*+(?:\r?\n|\Z))++")
_FILENAME = re.compile(r"\b(?:file)?name\*?(?:0\*?)?\s{0,4}=\s{0,4}(?:\"([^\"\r\n]{1,300})\"|([^;\s]{1,300}))", re.I)
_STEM_CHARS = 80


@dataclass(frozen=True)
class Limits:
    """`images` of a document are looked at, with `bytes` together; 0 images switch it off.

    One with fewer than `least_bytes` or a side of fewer than `least_side` pixels shows nothing: such images space lines
    apart and count readers.
    """

    images: int = 10
    bytes: int = 16 << 20
    least_bytes: int = 200
    least_side: int = 8


class File(api.File):
    """An image with its bytes, in the place of one that is stored. `optional`: its document waits no longer for a
    vision model that is away."""

    body: bytes = Field(repr=False)
    optional: bool = False


@dataclass(frozen=True)
class Image:
    """`name` is that of the attachment that it becomes."""

    name: str
    media_type: str
    digest: str
    body: bytes

    def file(self, *, optional: bool) -> File:
        """As a file of a request."""
        reference = api.ContentRef(key=self.digest, sha256=self.digest, bytes=len(self.body))
        return File(name=self.name, content_ref=reference, body=self.body, optional=optional)


@dataclass(frozen=True)
class Taken:
    """A text without its images, and those, each once. `problems` say which are left out and why."""

    text: str
    images: tuple[Image, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Those of the images."""
        return [one.name for one in self.images]


def named_so(name: str) -> bool:
    """Whether an attachment's name is one that images from within a document have."""
    return _NAMED.fullmatch(name) is not None


def take(text: str, limits: Limits) -> Taken:
    """Take the images out; all of them go from the text, those within the limits are given back."""
    pieces: list[str] = []
    images: dict[str, Image] = {}
    left_out: list[str] = []
    at = size = beyond = 0
    for start, end, called, encoded, mark in sorted(_found(text), key=lambda one: one[0]):
        if start < at:
            continue
        made, why = _decoded(encoded, called, limits)
        if made is not None:
            if made.digest in images:
                made = images[made.digest]
            elif len(images) >= limits.images or size + len(made.body) > limits.bytes:
                beyond += 1
                made = None
            else:
                images[made.digest] = made
                size += len(made.body)
        elif why:
            left_out.append(f"{called}: {why}")
        pieces += [text[at:start], mark.format(made.name) if made is not None else ""]
        at = end
    if not pieces:
        return Taken(text)
    problems = left_out[:_SAID]
    if len(left_out) > _SAID:
        problems.append(f"{len(left_out) - _SAID} more images in the document cannot be read")
    if beyond:
        problems.append(
            f"{beyond} more images in the document are not looked at: at most {limits.images} of them are, of at most "
            f"{limits.bytes} bytes together"
        )
    return Taken("".join([*pieces, text[at:]]), tuple(images.values()), tuple(problems))


_Region = tuple[int, int, str, str, str]
"""Where the encoded image stands, what it is called, its base64, and what takes its place."""


def _found(text: str) -> Iterator[_Region]:
    if ";base64," in text.lower():
        yield from _uris(text)
    if _HEADED.match(text) is not None:
        yield from _parts(text)


def _uris(text: str) -> Iterator[_Region]:
    for found in _DATA.finditer(text):
        start = found.end()
        quote = text[found.start() - 1] if found.start() else ""
        # In an attribute the value may be broken into lines.
        run = (_QUOTED if quote in ("'", '"') else _PAYLOAD).match(text, start)
        assert run is not None
        if quote in ("'", '"') and text[run.end() : run.end() + 1] != quote:
            run = _PAYLOAD.match(text, start)
            assert run is not None
        if run.end() - start >= _LEAST_CHARS:
            yield found.start(), run.end(), "image", unquote(run[0]), "image:{}"


def _parts(text: str) -> Iterator[_Region]:
    for found in itertools.islice(_PART.finditer(text), _PARTS):
        body = _BODY.search(text, found.end(), found.end() + _HEAD_CHARS)
        if body is None:
            continue
        head = _head(text[max(found.start() - _HEAD_CHARS, 0) : found.start()]) + text[found.start() : body.start()]
        if _ENCODED.search(head) is None:
            continue
        lines = _LINES.match(text, body.end())
        if lines is not None:
            yield lines.start(), lines.end(), _called(head), lines[0], "[image: {}]\n"


def _head(before: str) -> str:
    """The lines of a part's header that stand before its Content-Type."""
    kept: list[str] = []
    for line in reversed(before.splitlines(keepends=True)[-_HEAD_LINES:]):
        if not line.strip() or line.startswith("--"):
            break
        kept.append(line)
    return "".join(reversed(kept))


def _called(head: str) -> str:
    found = _FILENAME.search(head)
    if found is None:
        return "image"
    said = found[1] or found[2]
    try:
        said = str(make_header(decode_header(said))) if "=?" in said else unquote(said.rpartition("''")[2])
    except (mail_errors.MessageError, ValueError, LookupError):
        return "image"
    stem = re.sub(r"[^\w .()+-]", " ", said.rpartition(".")[0] or said)
    return " ".join(stem.split())[:_STEM_CHARS] or "image"


def _decoded(encoded: str, called: str, limits: Limits) -> tuple[Image | None, str]:
    """The image, or why there is none, "" for one that shows nothing."""
    try:
        body = binascii.a2b_base64("".join(encoded.split()).translate(_URL_SAFE).rstrip("=") + "==")
        media_type, width, height = image.measured(body)
        if min(width, height) < limits.least_side or len(body) < limits.least_bytes:
            return None, ""
        image.check(body)
    except root.Permanent as error:
        return None, error.message
    except (binascii.Error, ValueError):
        return None, "it is not encoded as it says"
    digest = identity.digest_bytes(body)
    return Image(f"{called}{_MARK}{digest[:16]}.{_ENDINGS[media_type]}", media_type, digest, body), ""


_URL_SAFE = str.maketrans("-_", "+/")
