"""Which thread a document belongs to, and how a model reads what was said in it before. Pure.

    mail   the ids in References and In-Reply-To (RFC 5322 3.6.4); the first one names the thread
    issue  its key; of a comment that is a document of its own that of its issue
    other  the thread that the source names: `threadId` of the metadata, or a field `thread` of the sourceUrn

Documents are found by nodes: each is connected with the first mail of its thread (`in_thread`) and with the one that it
answers (`in_reply_to`), whether these are known or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kb import api, hidden
from kb.extract import caller_facts, document_node, mail, quote

IN_THREAD, IN_REPLY_TO = "in_thread", "in_reply_to"
_FIELD = re.compile(
    r"(?:^|[,;:])\s*(?:thread|threadid|threadts|conversation|conversationid)\s*[:=]\s*([^,;]{1,200})", re.I
)
_MOST_CHARS = 4000
_EACH_CHARS = 1200
_NODE_CHARS = 512


@dataclass(frozen=True)
class Thread:
    """`keys` are nodes that earlier documents of the thread are connected with; none: it is in no thread.

    `answered` are the base nodes of what the document answers, by the headers of a mail or as a later version.
    """

    keys: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()


@dataclass(frozen=True)
class Said:
    """What a document of the thread said."""

    title: str
    sender: str
    at: str
    text: str


def of(request: api.IngestRequest, text: str, own: document_node.DocumentNode) -> Thread:
    """The thread of a document whose base node is `own`."""
    headers = mail.read(text) if own.type == "email" else None
    if headers is not None and headers.answered:
        known = tuple(f"email::{one}"[:_NODE_CHARS] for one in headers.answered)
        return Thread(known, known)
    topic = document_node.topic(own.key)
    if topic is not None:
        return Thread((topic.key,), (topic.key,))
    named = _named(request)
    return Thread((named,)) if named else Thread()


def facts(
    request: api.IngestRequest, headers: mail.Headers | None, own: document_node.DocumentNode
) -> Iterator[caller_facts.Fact]:
    """What connects a document, whose base node is `own`, with its thread."""
    topic = document_node.topic(own.key)
    if topic is not None and topic.key != own.key:
        yield caller_facts.Fact(IN_THREAD, topic.key, topic.type, "sourceUrn")
    if headers is not None and headers.answered:
        yield caller_facts.Fact(IN_THREAD, f"email::{headers.answered[0]}"[:_NODE_CHARS], "email", "references")
        yield caller_facts.Fact(IN_REPLY_TO, f"email::{headers.answered[-1]}"[:_NODE_CHARS], "email", "inReplyTo")
    elif headers is None and (named := _named(request)):
        yield caller_facts.Fact(IN_THREAD, named, "thread", "threadId")


def _named(request: api.IngestRequest) -> str:
    said = request.metadata.get("threadId")
    provider, _, rest = request.source_urn.partition(":")
    found = _FIELD.search(rest)
    value = said if isinstance(said, str) else found[1] if found else ""
    value = " ".join(value.split())[:200]
    return f"thread::{provider.casefold()}:{value}" if value else ""


def shown(earlier: Sequence[Said], *, most: int = _MOST_CHARS) -> str:
    """For a model: the latest first, each without what it quotes or hides, `most` characters in all."""
    room, parts = most, list[str]()
    for one in earlier:
        said = quote.new(hidden.seen(one.text))
        said = said if len(said) <= _EACH_CHARS else f"{said[:_EACH_CHARS]}\n[...]"
        head = ", ".join(part for part in (one.at[:16].replace("T", " "), one.sender, one.title) if part)
        block = f"{head}:\n{said}"
        if not said or len(block) > room:
            continue
        room -= len(block) + 2
        parts.append(block)
    return "\n\n".join(parts)


def participates(sender: str, among: Sequence[str], team: Sequence[str]) -> bool:
    """Whether the sender of an answer is one of those between whom a mail went, or one of us."""
    address = mail.named(sender)[1].casefold()
    people = {mail.named(one)[1].casefold() for one in among} | {one.strip().casefold() for one in team}
    return bool(address) and address in people
