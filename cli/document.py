"""A file -> the PendingTask that it becomes. Pure; `Draft.stored` and `Draft.files` are what has to be stored first."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import pydantic

from cli import attached, errors
from cli.reading import Object
from contracts.rules import time_zones
from crds import labels, pendingtask
from crds.pendingtask import Mode, Type
from crds.permits import Permit
from crds.values import STORED_BYTES, ContentRef
from text import mail

TITLE_ANNOTATION = labels.TITLE
MOST_FILES = 32
"""Attachments of a task."""


@dataclass(frozen=True)
class Wishes:
    """The flags of `submit`; None and "" leave it to the file."""

    client: str
    project: str = ""
    group: str = ""
    type: Type | None = None
    mode: Mode | None = None
    name: str = ""
    title: str = ""
    source_urn: str = ""
    position: int | None = None
    conversation: str = ""
    """What earlier questions of the same conversation were asked with."""
    time_zone: str = ""
    permits: tuple[Permit, ...] = ()
    """What its runs may do without asking."""
    files: tuple[attached.File, ...] = ()
    own_files: bool = True
    """A mail's attachments go along."""
    largest: int = STORED_BYTES
    """Bytes that the knowledge base stores as one content."""


@dataclass(frozen=True)
class Draft:
    """A task without its content. `stored`: the content is too large for an object and goes to the knowledge base, as
    `files` do in any case."""

    name: str
    title: str
    spec: dict[str, Any]
    content: str
    files: tuple[attached.File, ...] = ()

    @property
    def stored(self) -> bool:
        """More than 32 KiB of UTF-8."""
        return len(self.content.encode()) > pendingtask.CONTENT_BYTES

    def manifest(self, reference: ContentRef | None, files: Sequence[ContentRef] = ()) -> Object:
        """The object to create, with the content or the reference to it, and references to its files in their order.

        Raises `Unusable` naming a wrong field.
        """
        content: dict[str, Any] = {"content": self.content} if reference is None else {"contentRef": reference.wire()}
        if self.files:
            content["attachments"] = [
                {"name": file.name, "mediaType": file.media_type, "contentRef": at.wire()}
                for file, at in zip(self.files, files, strict=True)
            ]
        try:
            spec = pendingtask.Spec.model_validate({**self.spec, **content})
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            field = ".".join(["spec", *(str(part) for part in first["loc"])])
            raise errors.Unusable(
                f"{field}: {first['msg']}.", field=field, remedy="Correct the flag that sets it."
            ) from error
        annotations = {TITLE_ANNOTATION: self.title} if self.title else {}
        return {
            "apiVersion": "jervis.dev/v1alpha1",
            "kind": "PendingTask",
            "metadata": {"name": self.name, "annotations": annotations},
            # What a person did not say is the apiserver's to default.
            "spec": spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
        }


def draft(file: str, raw: bytes, wishes: Wishes) -> Draft:
    """`file` is its name, "-" for standard input. A mail file (.eml) brings its own type, source, title and files."""
    type_ = wishes.type or (Type.EMAIL if file.lower().endswith(".eml") else Type.USER_INPUT)
    message = _read(file, raw, type_)
    if not message.text.strip():
        raise errors.Unusable(f"{file} is empty.", field="FILE", remedy="Give a file with text in it.")
    mode = wishes.mode or (Mode.FOREGROUND if type_ is Type.USER_INPUT else Mode.BACKGROUND)
    spec: dict[str, Any] = {
        "type": type_,
        "clientId": wishes.client,
        "projectId": wishes.project,
        "groupId": wishes.group,
        "sourceUrn": wishes.source_urn or message.urn,
        "correlationId": wishes.conversation,
        "timeZone": _zone(wishes.time_zone),
        "mode": mode,
        "queuePosition": wishes.position,
        "facts": message.facts.wire() if message.facts else None,
        "permits": [permit.wire() for permit in wishes.permits],
    }
    said = {key: value for key, value in spec.items() if value not in ("", None, [])}
    files = (*(message.files if wishes.own_files else ()), *wishes.files)
    _bounded(file, message.text, files, wishes)
    name = wishes.name or _name(file, raw, wishes, type_)
    return Draft(name, wishes.title or message.title, said, message.text, files)


def _zone(name: str) -> str:
    try:
        return name and time_zones.parse(name)
    except ValueError as error:
        raise errors.Unusable(f"{error}.", field="--time-zone", remedy="Correct the name.") from error


def unstored(body: bytes) -> ContentRef:
    """The reference to a content that is not stored: for a check of the object before that, or instead of it."""
    return ContentRef(key="not-stored", sha256=hashlib.sha256(body).hexdigest(), bytes=len(body))


def _bounded(file: str, content: str, files: Sequence[attached.File], wishes: Wishes) -> None:
    if len(files) > MOST_FILES:
        raise errors.Unusable(
            f"{file} has {len(files)} attachments; a task holds at most {MOST_FILES}.",
            field="spec.attachments",
            remedy="Leave out those of the mail with --no-attachments and name the ones that matter with --attach.",
        )
    for name, size in [(file, len(content.encode())), *((one.name, len(one.body)) for one in files)]:
        if size > wishes.largest:
            raise errors.Unusable(
                f"{name} has {size} bytes; the knowledge base stores at most {wishes.largest} as one content.",
                field="FILE" if name == file else "spec.attachments",
                remedy="Split it, or leave it out (--no-attachments for a mail's). Where kb.settings.maxContentBytes of"
                " the chart was raised, say so with --max-bytes.",
            )


def _read(file: str, raw: bytes, type_: Type) -> mail.Mail:
    """Any file in the form of a mail."""
    if file.lower().endswith(".eml") and type_ is Type.EMAIL:
        try:
            found = mail.read(raw)
        except mail.UnreadableError as error:
            raise _no_mail(str(error)) from error
        if not found.headed:
            raise _no_mail("it has none of the headers of a mail")
        if not found.body:
            raise _no_mail("the message has no text")
        return found
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.Unusable(
            f"{file} is not text: byte {error.start} is no UTF-8.",
            field="FILE",
            remedy="Convert it to UTF-8 text first, for example with iconv or pdftotext.",
        ) from error
    return mail.Mail("", "" if file == "-" else PurePath(file).name, text)


def _no_mail(why: str) -> errors.Unusable:
    return errors.Unusable(
        f"This is no usable mail: {why}.",
        field="FILE",
        remedy="Give an RFC 5322 message with a text part, or set --type to submit the file as it is.",
    )


def _name(file: str, raw: bytes, wishes: Wishes, type_: Type) -> str:
    """The same files for the same client and type have the same name: submitted twice, it is one task."""
    identity = "\0".join((wishes.client, wishes.project, wishes.group, type_.value)).encode()
    added = b"".join(hashlib.sha256(one.body).digest() for one in wishes.files)
    digest = hashlib.sha256(identity + b"\0" + raw + added).hexdigest()[:8]
    stem = re.sub(r"[^a-z0-9]+", "-", "input" if file == "-" else PurePath(file).stem.lower())[:50].strip("-")
    return f"{stem or 'task'}-{digest}"
