"""The base node of a document: its key, and the typed properties and facts that its extraction gives it. Pure.

Source: seed 001 "Node Types" (keys and properties), seed 003 "Create Base Node".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from crds import scope
from kb import api
from kb.extract import caller_facts, document_node, mail, reference, thread, typed

KINDS = {
    "email": api.ContentType.EMAIL,
    "mail": api.ContentType.EMAIL,
    "issue": api.ContentType.JIRA,
    "jira": api.ContentType.JIRA,
    "wiki": api.ContentType.CONFLUENCE,
    "confluence": api.ContentType.CONFLUENCE,
    "log": api.ContentType.LOG,
}
"""Kinds of documents whose type needs no model."""

_FAMILIES = {
    api.ContentType.EMAIL: ("email", "email"),
    api.ContentType.JIRA: ("jira", "jira_issue"),
    api.ContentType.CONFLUENCE: ("confluence", "confluence_page"),
    api.ContentType.LOG: ("log", "log"),
}
# The URN of a task whose content has no source of its own.
_NO_SOURCE = "task"
_UNKNOWN = api.EmailClassification.UNKNOWN
_MOST_CHARS = 4000


def parsed(request: api.IngestRequest, text: str, derived: document_node.DocumentNode) -> caller_facts.Base | None:
    """The base node as far as it can be known without a model; None for a document whose kind says no type."""
    found: api.TypedExtraction
    match KINDS.get(request.kind.casefold()):
        case api.ContentType.EMAIL:
            found = typed.email(request, text, "", None)
        case api.ContentType.JIRA:
            found = typed.jira(typed.issue_key(derived.key, text), text, "", None)
        case api.ContentType.CONFLUENCE:
            found = typed.confluence(request, text, "", None)
        case _:
            return None
    return made(request, text, derived, found)


def made(
    request: api.IngestRequest,
    text: str,
    derived: document_node.DocumentNode,
    found: api.TypedExtraction,
    *,
    qualified: bool = False,
) -> caller_facts.Base:
    """The base node with what was found; `derived` is what the sourceUrn calls it."""
    headers = mail.read(text) if isinstance(found, api.EmailExtraction) else None
    named = headers.message_id if headers else ""
    if isinstance(found, api.JiraExtraction):
        named = found.key
    correlation = request.metadata.get("correlationId")
    one = own(request, derived, found.content_type, named, correlation if isinstance(correlation, str) else "")
    known = {name: value for name, value in _properties(found, request, headers).items() if value not in ("", [])}
    stated = (*_facts(found, request.scope, headers), *thread.facts(request, headers, one))
    topic = document_node.topic(one.key)
    if topic is not None and topic.key != one.key:
        # A comment has none of what its issue has.
        known, stated = {}, tuple(thread.facts(request, headers, one))
    facts = {(fact.of, fact.relation, fact.key): fact for fact in stated if fact.key != one.key}
    return caller_facts.Base(one.key, one.type, known, tuple(facts.values()), qualified)


def threaded(request: api.IngestRequest, derived: document_node.DocumentNode) -> caller_facts.Base | None:
    """The base node of a document of no type that its source puts into a thread."""
    found = tuple(thread.facts(request, None, derived))
    return caller_facts.Base(derived.key, derived.type, {}, found) if found else None


def own(
    request: api.IngestRequest, derived: document_node.DocumentNode, kind: api.ContentType, named: str, correlation: str
) -> document_node.DocumentNode:
    """The base node: what the sourceUrn says (`derived`); where it says nothing, what the document calls itself
    (`named`: a Message-ID, an issue's key), and only then the correlation id."""
    value = named or correlation
    if kind not in _FAMILIES or request.source_urn.partition(":")[0] != _NO_SOURCE or not value:
        return derived
    prefix, type_ = _FAMILIES[kind]
    return document_node.DocumentNode(f"{prefix}::{value[:512]}", type_)


def info(found: api.TypedExtraction, request: api.IngestRequest, summary: str) -> str:
    """A sentence about the base node."""
    match found:
        case api.EmailExtraction():
            return f"Email from {found.sender or 'an unknown sender'}: {found.subject}"
        case api.JiraExtraction():
            return f"Issue {found.key}: {request.title}" + (f" ({found.status})" if found.status else "")
        case api.ConfluenceExtraction():
            return f"Page {found.title}" + (f" by {found.author}" if found.author else "")
        case api.LogSummarization():
            return found.summary
        case api.GenericExtraction():
            return found.base_info or summary


def _properties(
    found: api.TypedExtraction, request: api.IngestRequest, headers: mail.Headers | None
) -> dict[str, str | bool | list[str]]:
    match found:
        case api.EmailExtraction():
            return {
                "subject": found.subject,
                "from": found.sender,
                "to": [one for one in found.recipients if not headers or one not in headers.copied],
                "cc": list(headers.copied) if headers else [],
                "classification": "" if found.classification is _UNKNOWN else found.classification.value,
                "sentAt": headers.sent if headers else "",
                "messageId": headers.message_id if headers else "",
                "hasAttachments": bool(request.attachments or request.files),
            }
        case api.JiraExtraction():
            return {
                "key": found.key,
                "summary": request.title,
                "issueType": found.type,
                "status": found.status,
                "assignee": found.assignee,
                "reporter": found.reporter,
                "epic": found.epic,
                "sprint": found.sprint,
                "changeDescription": found.change_description,
            }
        case api.ConfluenceExtraction():
            return {"title": found.title, "authorName": found.author, "topic": found.topic}
        case api.LogSummarization():
            return {"summary": found.summary[:_MOST_CHARS]}
        case api.GenericExtraction():
            return {}


def _facts(found: api.TypedExtraction, where: scope.Scope, headers: mail.Headers | None) -> Iterator[caller_facts.Fact]:
    match found:
        case api.EmailExtraction():
            yield from _person("sent_by", found.sender, "sender", where)
            copied = headers.copied if headers else ()
            for one in found.recipients:
                yield from _person("copied_to" if one in copied else "sent_to", one, "recipients", where)
        case api.JiraExtraction():
            yield from _person("assigned_to", found.assignee, "assignee", where)
            yield from _person("reported_by", found.reporter, "reporter", where)
            yield from _thing("in_epic", reference.issue("issue", found.epic), found.epic, "epic", where)
            yield from _thing("in_sprint", None, found.sprint, "sprint", where)
        case api.ConfluenceExtraction():
            yield from _person("written_by", found.author, "author", where)


def _person(relation: str, who: str, place: str, where: scope.Scope) -> Iterator[caller_facts.Fact]:
    """A person is an address; a name alone is a person of its own. The name that a mail gives an address is a label of
    it: two people of one name stay two, and one with two names stays one."""
    name, address = mail.named(who) if "@" in who else (who, "")
    user = reference.key("user", address, where) if "@" in address else None
    if user is None:
        yield from _thing(relation, None, name or address, place, where, "person")
        return
    yield caller_facts.Fact(relation, user, "user", place, name=name)
    for label in _thing("called", None, name, place, where, "person"):
        yield replace(label, of=user)


def _thing(
    relation: str, key: str | None, name: str, place: str, where: scope.Scope, kind: str = ""
) -> Iterator[caller_facts.Fact]:
    made = key or (reference.key(kind or place, name, where) if name else None)
    if made is not None:
        yield caller_facts.Fact(relation, made, reference.kind_of(made), place)
