"""The links of a document: plain text, Markdown, HTML, mails and commit messages. Pure.

Only http and https count. Source: seed 000 "Link Handling Flow" (URL, and the text before and after it).
"""

from __future__ import annotations

import contextlib
import email
import email.errors
import email.message
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email import parser
from urllib.parse import quote, urlsplit, urlunsplit

from kb import hidden
from kb.crawl import page

CONTEXT_CHARS = 200
URL_CHARS = 1000
"""A longer URL is left out: it would not fit into a source URN, and carries a token rather than a name."""
# Not blanks, quotes, what RFC 3986 leaves out, or characters that are not seen (zero-width, direction marks); and not
# the end of a Markdown label that is a URL itself.
_URL = re.compile(
    r"(?<![A-Za-z0-9+.-])https?://"
    r"(?:(?!\]\()[^\s<>\"`{}|\\^\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff])+",
    re.I,
)
_BROKEN = re.compile(r"<https?://[^\s<>]{1,1000}(?:[ \t]{0,4}\r?\n[ \t>]{0,8}[^\s<>]{1,1000}){1,8}>", re.I)
_CLOSING = {")": "(", "]": "["}
_AFTER = ".,;:!?'*~…。，、；：！？’‘“”„«»‹›"  # noqa: RUF001 -- these end sentences of many scripts
_TAGS = re.compile(r"<(?:!doctype|html|head|body|div|p|br|table|span|ul|ol|h[1-6]|a\s)[^<>]{0,2000}>", re.I)
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}:")
_SPACE = re.compile(r"[\s\u200b-\u200f\u2060\ufeff]+")
# Everything that may stand in a URL as it is; "%" too, so that what is encoded stays encoded as it was.
_AS_IS = "%/:?#[]@!$&'()*+,;=~-._"
_DEFAULT = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Link:
    """A normalised URL, and what stands around its first occurrence: at most `CONTEXT_CHARS` characters each."""

    url: str
    before: str
    after: str


def find(text: str, *, most: int, leaving: Sequence[str] = ()) -> list[Link]:
    """The first `most` different links of a document, in order of their first occurrence.

    Those that a mail's List-Unsubscribe header names (RFC 2369, RFC 8058), in its text or `leaving` it, are left out,
    whatever their parameters are: one request of such a link unsubscribes its reader. So are those in parts that no
    reader sees (`kb.hidden`).
    """
    text = hidden.seen(text)
    found: dict[str, Link] = {}
    ending = {_place(url) for url in map(normalise, (*_unsubscribing(text), *leaving)) if url}
    for body in _bodies(text):
        plain, places = _places(body)
        for written, start, end in places:
            url = normalise(written)
            if url is None or url in found or _place(url) in ending:
                continue
            if len(found) >= most:
                return list(found.values())
            # More than is shown: runs of blanks are one.
            before = _SPACE.sub(" ", plain[max(0, start - 4 * CONTEXT_CHARS) : start])
            after = _SPACE.sub(" ", plain[end : end + 4 * CONTEXT_CHARS])
            found[url] = Link(url, before[-CONTEXT_CHARS:].strip(), after[:CONTEXT_CHARS].strip())
    return list(found.values())


def normalise(url: str) -> str | None:
    """The URL in one spelling, without its fragment; None for what is no plain web address (a login in it included)."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port
        if ":" in host:
            host = f"[{ipaddress.ip_address(host).compressed}]"
        elif host:
            host = host.encode("idna").decode().lower()
    except (ValueError, UnicodeError):
        return None
    if parts.scheme not in _DEFAULT or not host or "@" in parts.netloc or re.search(r"[^\w.\-\[\]:]", host):
        return None
    netloc = host if port in (None, _DEFAULT[parts.scheme]) else f"{host}:{port}"
    path, query = (quote(part, safe=_AS_IS, errors="replace") for part in (parts.path or "/", parts.query))
    made = urlunsplit((parts.scheme, netloc, path, query, ""))
    return made if len(made) <= URL_CHARS else None


def _place(url: str) -> str:
    return url.partition("?")[0]


def _unsubscribing(text: str) -> list[str]:
    """The URLs of List-Unsubscribe headers; none of a text that is no mail."""
    if not _HEADER.match(text.lstrip().partition("\n")[0]):
        return []
    try:
        headers = parser.HeaderParser().parsestr(text.lstrip(), headersonly=True).get_all("List-Unsubscribe", [])
    except (email.errors.MessageError, ValueError):
        return []
    return [found[0].rstrip(">") for one in headers for found in _URL.finditer("".join(str(one).split()))]


def _bodies(text: str) -> Iterable[str]:
    """The texts of a mail, decoded; any other document as it is."""
    first = text.lstrip().partition("\n")[0]
    if not _HEADER.match(first) or _URL.match(first):
        return [text]
    try:
        # The parser of the older kind: the other one's time grows with the square of a header.
        mail = email.message_from_string(text.lstrip())
        parts = [part for part in mail.walk() if part.get_content_maintype() == "text" and not part.get_filename()]
        bodies = [_decoded(part) for part in parts]
    except (email.errors.MessageError, ValueError, LookupError, RecursionError):
        # What cannot be taken apart (parts nested without end) is looked through as it is written.
        return [text]
    # A text whose first line merely looks like a header loses its first paragraph otherwise.
    return bodies if "From" in mail or "MIME-Version" in mail or "Message-ID" in mail else [text]


def _decoded(part: email.message.Message) -> str:
    said = part.get_payload()
    if str(part.get("Content-Transfer-Encoding", "")).strip().lower() in ("quoted-printable", "base64"):
        body = part.get_payload(decode=True)
        if isinstance(body, bytes):
            return page.decode(body, str(part.get_content_charset("utf-8")))
    return said if isinstance(said, str) else ""


def _places(body: str) -> tuple[str, list[tuple[str, int, int]]]:
    """The text that people see, and each URL with where it begins and ends there. One in angle brackets may go on in
    the next line (RFC 3986, appendix C)."""
    body = _BROKEN.sub(lambda found: "".join(found[0].split()), body)
    anchors: list[tuple[str, int]] = []
    if _TAGS.search(body):
        # Of a costly one the addresses are found as they are written.
        with contextlib.suppress(page.Costly):
            body, anchors = page.anchored(body)
    places = [(link, start, start) for link, start in anchors]
    for match in _URL.finditer(body):
        url = _trimmed(match[0])
        places.append((url, match.start(), match.start() + len(url)))
    return body, sorted(places, key=lambda one: one[1])


def _trimmed(url: str) -> str:
    """Without the punctuation and the brackets that belong to the sentence around it."""
    # Where a bracket closes that was opened before the URL, as in (see [this](https://a.example/b)), it has ended.
    depth = {")": 0, "]": 0}
    for place, letter in enumerate(url):
        if letter in "([":
            depth[")" if letter == "(" else "]"] += 1
        elif letter in _CLOSING:
            depth[letter] -= 1
            if depth[letter] < 0:
                url = url[:place]
                break
    return url.rstrip(_AFTER)
