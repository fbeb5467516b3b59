"""Mails, issues and pages: what a run does at Connections.

Each names a Connection, or takes the one that the settings name. What the allow-lists of the settings, or a rule's
`never-say`, exclude is refused before a person is asked. Bounds are those of docs/effects.md, which the sources process
checks again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, model_validator

from clients import toolservers
from contracts.rules import enforce_lines
from crds import permits, scope, values
from kb import client as kb_client
from orchestrator_job import outcome
from orchestrator_job.effects import effect_digest, ledger_entries
from orchestrator_job.effects.tools import port, remote_effects, settings
from sources import client as sources_client

MOST_RECIPIENTS = 50
MOST_FILES = 32


def one_line(text: str) -> str:
    """Raises ValueError for text with control characters or line breaks, which could begin another header."""
    if any(ord(letter) < 32 or ord(letter) == 127 or letter in "\x85\u2028\u2029" for letter in text):
        raise ValueError("must be one line without control characters")
    return text


def _text(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain the character 0")
    return text


_NO_TEXTS = {"connection", "attachments", "in_reply_to", "references", "repository", "issue", "page", "version"}
"""Arguments of which nothing is a text that leaves with the effect."""
Line = AfterValidator(one_line)
Name = Annotated[str, Field(max_length=253, pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$")]
Address = Annotated[
    str,
    Field(
        max_length=320,
        pattern=r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$",
    ),
    Line,
]
Addresses = Annotated[tuple[Address, ...], Field(max_length=MOST_RECIPIENTS)]
_MessageId = Annotated[str, Field(max_length=500, pattern=r"^<[^<>\s]+@[^<>\s]+>$"), Line]


class _Named(port.Arguments):
    connection: Name = ""


class Attachment(port.Arguments):
    """A stored draft; `key` is what save_draft answered."""

    name: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^/\\]+$"), Line]
    media_type: Annotated[str, Field(max_length=127, pattern=r"^[a-z0-9.+-]+/[A-Za-z0-9.+_-]+$")] = "text/plain"
    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,255}$")]


class SendMail(_Named):
    """Addresses are plain, as name@example.com. `inReplyTo` is the Message-ID of the mail that is answered."""

    to: Addresses
    cc: Addresses = ()
    bcc: Addresses = ()
    subject: Annotated[str, Field(min_length=1, max_length=500), Line]
    text: Annotated[str, Field(min_length=1, max_length=100_000), AfterValidator(_text)]
    attachments: Annotated[tuple[Attachment, ...], Field(max_length=MOST_FILES)] = ()
    in_reply_to: _MessageId | None = None
    references: Annotated[tuple[_MessageId, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _some(self) -> SendMail:
        if not 1 <= len(self.to) + len(self.cc) + len(self.bcc) <= MOST_RECIPIENTS:
            raise ValueError(f"to, cc and bcc name 1 to {MOST_RECIPIENTS} recipients together")
        return self


class CreateIssue(_Named, sources_client.CreateIssue):
    """`repository` is owner/name, for Jira the key of the project; left out where the Connection has only one."""


class AddComment(_Named, sources_client.AddComment):
    """`issue` is its number, or the key of Jira."""


class UpdateIssue(_Named, sources_client.UpdateIssue):
    """Changes what is given, at least one thing; `state` is for Git hosts alone."""


class EditPage(_Named, sources_client.EditPage):
    """`page` is the number of the page. `version`: the one that was read; a page that has another one by now is left
    as it is."""


@dataclass(frozen=True, slots=True)
class Means:
    """What effects at Connections need."""

    client: sources_client.Client
    prepared: remote_effects.Prepared
    kb: kb_client.Client
    viewer: scope.Scope
    allowed: settings.Settings
    rules: enforce_lines.Provisions
    known: tuple[sources_client.Named, ...] = ()
    """The Connections that the run may use, as far as that is known."""


class AtConnection:
    """An `Acting` tool. Subclasses give `asks`, the name of the effect, and which Connection a call without one is at;
    and whatever of their arguments is not sent as it is."""

    name: str
    description: str
    arguments: type[port.Arguments]
    tier = port.Tier.PERMIT
    asks: ClassVar[str]
    usual: ClassVar[str]
    """The field of the settings with the Connection of a call that names none."""

    def __init__(self, means: Means) -> None:
        self._means = means

    def connection(self, given: Any) -> str:
        """Of a call. Raises `port.Misused` where there is none."""
        found: str = given.connection or getattr(self._means.allowed, self.usual)
        if not found:
            names = ", ".join(one.name for one in self._means.known if self.asks in one.uses)
            raise port.Misused(f"{self.name}: connection: name the Connection{f', one of {names}' if names else ''}")
        return found

    def aims(self, given: Any) -> Mapping[str, str]:
        """Raises `port.Misused` for what the settings or a rule do not allow."""
        if objection := self._means.rules.objection(self.shown(given), cites=True, final=False):
            raise port.Misused(f"{self.name}: {objection}")
        named = {"connection": given.connection} if given.connection else {}
        return {**named, **self.aimed(given)}

    def aimed(self, given: Any) -> dict[str, str]:
        """The aims beside the Connection; raises `port.Misused` for those that the allow-lists have not."""
        raise NotImplementedError

    def targets(self, given: Any) -> tuple[str, ...]:
        """All that it is at, as permits name it."""
        raise NotImplementedError

    def reach(self, given: Any) -> port.Reach:
        """With all texts but the targets and the ids of the mails that are answered."""
        targets = self.targets(given)
        sent = given.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_NO_TEXTS)
        attached = getattr(given, "attachments", ())
        leaves = (*port.leaves(sent), *(attachment.name for attachment in attached))
        text = "\n".join(leaf for leaf in leaves if leaf not in targets)
        stored = tuple(attachment.key for attachment in attached)
        return port.Reach(permits.tool_name(self.name), self.connection(given), targets, text, stored)

    def shown(self, given: Any) -> str:
        """Every argument: short ones as lines, then the text."""
        rest = given.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"text", "connection"})
        lines = [f"{self.asks} at {self.connection(given)}"]
        lines += [f"{name}: {_line(value)}" for name, value in rest.items() if value not in ("", [], {})]
        text = getattr(given, "text", None)
        return "\n".join(lines if text is None else [*lines, "", text])

    def effect(self, given: Any, place: port.Place) -> ledger_entries.Effect:
        """Not begun. Raises `port.Misused` as `aims` does."""
        aims, connection = self.aims(given), self.connection(given)

        async def build() -> Mapping[str, Any]:
            return await self.built(given, place)

        client, prepared = self._means.client, self._means.prepared
        asked = given.model_dump(mode="json", by_alias=True, exclude={"connection"})
        digest = effect_digest.digest(self.name, connection, asked)
        return remote_effects.Effect(client, prepared, self.asks, connection, build, self.said, aims, digest)

    async def built(self, given: Any, place: port.Place) -> Mapping[str, Any]:
        """The arguments as the sources process takes them."""
        sent: dict[str, Any] = given.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"connection"})
        return sent

    def said(self, result: Mapping[str, str]) -> str:
        """For the model."""
        return f"Done: {self.asks}. " + ", ".join(f"{name} {value}" for name, value in sorted(result.items()))

    def _within(self, patterns: Sequence[str], value: str, what: str) -> str:
        if not toolservers.allowed(patterns, value):
            raise port.Misused(f"{self.name}: {what} {value!r} is not among those that the settings allow")
        return value


def _line(value: object) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


async def files(means: Means, given: Sequence[Attachment]) -> list[dict[str, Any]]:
    """Attachments with the references of what is stored under their keys. Raises `port.Misused` where nothing is."""
    found = []
    for one in given:
        try:
            raw = await means.kb.fetch(means.viewer, one.key)
        except kb_client.Rejected as error:
            outcome.recheck(error)
            raise port.Misused(f"attachment {one.key}: {error.message}") from error
        ref = values.ContentRef(key=one.key, sha256=hashlib.sha256(raw).hexdigest(), bytes=len(raw))
        found.append({"name": one.name, "mediaType": one.media_type, "contentRef": ref.wire()})
    return found


async def store(means: Means, raw: bytes, media_type: str) -> values.ContentRef:
    """Content that an effect needs. Raises `port.Misused` where it is refused."""
    try:
        ref = await means.kb.store(means.viewer, raw, media_type)
    except kb_client.Rejected as error:
        outcome.recheck(error)
        raise port.Misused(error.message, remedy=error.remedy) from error
    return values.ContentRef.model_validate(ref.model_dump(by_alias=True))


def to(allowed: settings.Settings, name: str, given: Any) -> dict[str, str]:
    """The recipients of a mail as aims. Raises `port.Misused` for those that the settings do not allow."""
    found = {}
    for field in ("to", "cc", "bcc"):
        for number, address in enumerate(getattr(given, field, ())):
            if not toolservers.allowed(allowed.mail_recipients, address):
                raise port.Misused(f"{name}: recipient {address!r} is not among those that the settings allow")
            found[f"{field}.{number}"] = address
    return found


def recipients(given: Any) -> tuple[str, ...]:
    """All of a mail, in their order, each once."""
    return tuple(dict.fromkeys((*given.to, *given.cc, *given.bcc)))


class Mail(AtConnection):
    """One mail to all recipients or to none."""

    name, asks, usual = "send_mail", "sendMail", "mail_connection"
    description = "Send a mail of plain text. A draft for a person to look at is save_draft instead."
    arguments = SendMail

    def aimed(self, given: SendMail) -> dict[str, str]:
        """The recipients, cc and bcc included."""
        return to(self._means.allowed, self.name, given)

    def targets(self, given: SendMail) -> tuple[str, ...]:
        """The recipients."""
        return recipients(given)

    async def built(self, given: SendMail, place: port.Place) -> Mapping[str, Any]:
        """With references to the stored attachments."""
        return {**await super().built(given, place), "attachments": await files(self._means, given.attachments)}


class _Tracker(AtConnection):
    usual = "tracker_connection"

    def aimed(self, given: Any) -> dict[str, str]:
        """Repository and issue."""
        where = f"{self.connection(given)}/{given.repository}"
        self._within(self._means.allowed.tracker_repositories, where, "repository")
        found = {"repository": given.repository, "issue": getattr(given, "issue", "")}
        return {name: value for name, value in found.items() if value}

    def targets(self, given: Any) -> tuple[str, ...]:
        """OWNER/REPO#13 or the key of Jira; OWNER/REPO of a new issue."""
        issue = getattr(given, "issue", "")
        found = given.repository if not issue else f"{given.repository}#{issue}" if issue.isdigit() else issue
        return (found,) if found else ()


class NewIssue(_Tracker):
    """An issue."""

    name, asks, arguments = "create_issue", "createIssue", CreateIssue
    description = "Create an issue at a Git host or Jira."


class ChangedIssue(_Tracker):
    """Another title, text, state or other labels."""

    name, asks, arguments = "update_issue", "updateIssue", UpdateIssue
    description = "Change title, text, labels or state of an issue."


class Comment(_Tracker):
    """A comment on an issue."""

    name, asks, arguments = "add_comment", "addComment", AddComment
    description = "Write a comment on an issue."


class Page(AtConnection):
    """A page of Confluence."""

    name, asks, usual = "edit_page", "editPage", "wiki_connection"
    description = "Append text to a page of the wiki, or replace its text."
    arguments = EditPage

    def aimed(self, given: EditPage) -> dict[str, str]:
        """The page."""
        self._within(self._means.allowed.wiki_pages, f"{self.connection(given)}/{given.page}", "page")
        return {"page": given.page}

    def targets(self, given: EditPage) -> tuple[str, ...]:
        """The page."""
        return (given.page,)


def all_of(means: Means) -> list[AtConnection]:
    """The tools of this module."""
    return [one(means) for one in (Mail, NewIssue, ChangedIssue, Comment, Page)]
