"""Deterministic ids: the same input has the same id in every store, on every run, in every process.

UUIDv5 over the owner and the content's hash (kb page, trap 3). That makes every write an upsert, a repeated ingest a
no-op and a crashed one resumable.
"""

from __future__ import annotations

import hashlib
import uuid
from datetime import datetime

from crds import scope

_ROOT = uuid.uuid5(uuid.NAMESPACE_DNS, "kb.jervis.dev")
# The ASCII unit separator cannot stand in an identifier, so joined parts never run into each other.
_SEPARATOR = "\x1f"


def digest(text: str) -> str:
    """SHA-256 of the text as UTF-8, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_bytes(body: bytes) -> str:
    """SHA-256 of bytes, in hex."""
    return hashlib.sha256(body).hexdigest()


def owner(where: scope.Scope) -> str:
    """The part of a scope that identifies data.

    A project's data keeps its identity when the project moves to another group (seed 001 "Re-grouping"), so the group
    counts only where there is no project.
    """
    group = "" if where.project_id else where.group_id
    return _SEPARATOR.join((where.client_id, where.project_id, group))


def document(where: scope.Scope, source_urn: str) -> str:
    """Id of the document that a source URN names within its owner."""
    return _make("document", owner(where), source_urn)


def chunk(document_id: str, content_hash: str, occurrence: int) -> str:
    """Id of a chunk; `occurrence` counts chunks of equal text within the document from 0."""
    return _make("chunk", document_id, content_hash, str(occurrence))


def sentence(chunk_id: str, text: str) -> str:
    """Id of a sentence of a chunk; equal sentences of one chunk are one."""
    return _make("sentence", chunk_id, digest(text))


def version(document_id: str, revision: str, since_ms: int | None) -> str:
    """Id of a version of a document that was replaced; two of one revision differ in when they began."""
    return _make("version", document_id, revision, str(since_ms))


def past(version_id: str, of: str) -> str:
    """Id under which a chunk or sentence is kept as part of a version that was replaced."""
    return _make("past", version_id, of)


def content(where: scope.Scope, sha256: str) -> str:
    """Key of stored content: the same bytes of the same owner are stored once."""
    return _make("content", owner(where), sha256)


def part(document_id: str, sha256: str) -> str:
    """Key of content that is a part of a document: no other document shares it, and it goes with this one."""
    return _make("part", document_id, sha256)


def page_work(document_id: str, revision: str, sha256: str) -> str:
    """Id of the pages of a document's version, drawn from the file with this hash."""
    return _make("pagework", document_id, revision, sha256)


def page(work_id: str, number: int) -> str:
    """Id of one of these pages."""
    return _make("page", work_id, str(number))


def page_choice(where: scope.Scope) -> str:
    """Id of an owner's choice of the documents that get pages."""
    return _make("pagechoice", owner(where))


def alias(where: scope.Scope, key: str) -> str:
    """Id of an owner's alias of a node's key."""
    return _make("alias", owner(where), key)


def rule(where: scope.Scope, rule_key: str, version: int) -> str:
    """Id of a version of an owner's rule."""
    return _make("rule", owner(where), rule_key, str(version))


def entity_types(where: scope.Scope) -> str:
    """Id of an owner's entity types."""
    return _make("entitytypes", owner(where))


def link_pattern(where: scope.Scope, pattern: str) -> str:
    """Id of an owner's pattern of links."""
    return _make("linkpattern", owner(where), pattern)


def erasure(where: scope.Scope, at: datetime) -> str:
    """Id of the erasure of a scope that was asked for at that moment."""
    return _make("erasure", owner(where), at.isoformat())


def procedure(client_id: str, source: str, trigger: str) -> str:
    """Id of a client's procedure for a trigger, learned or defined by a user."""
    return _make("procedure", client_id, source, trigger)


def tool_call(of: str, tool: str, arguments: str) -> str:
    """Id of a call of a tool about a task, or in an owner's data; `arguments` is JSON with sorted keys."""
    return _make("toolcall", of, tool, digest(arguments))


def _make(*parts: str) -> str:
    return str(uuid.uuid5(_ROOT, _SEPARATOR.join(parts)))
