"""A file -> the PendingTask that it becomes. Pure; who has to store the content is told by `Draft.stored`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import pydantic

from cli import errors, mail
from cli.reading import Object
from crds import labels, pendingtask
from crds.pendingtask import Mode, Type
from crds.values import ContentRef

TITLE_ANNOTATION = labels.TITLE
LARGEST = 256 * 1024 * 1024
"""Bytes that the knowledge base takes."""


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


@dataclass(frozen=True)
class Draft:
    """A task without its content. `stored`: the content is too large for an object and goes to the knowledge base."""

    name: str
    title: str
    spec: dict[str, Any]
    content: str

    @property
    def stored(self) -> bool:
        """More than 32 KiB of UTF-8."""
        return len(self.content.encode()) > pendingtask.CONTENT_BYTES

    def manifest(self, reference: ContentRef | None) -> Object:
        """The object to create, with the content or the reference to it. Raises `Unusable` naming a wrong field."""
        content = {"content": self.content} if reference is None else {"contentRef": reference.wire()}
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
    """`file` is its name, "-" for standard input. A mail file (.eml) brings its own type, source and title."""
    if len(raw) > LARGEST:
        raise errors.Unusable(
            f"{file} has {len(raw)} bytes; at most {LARGEST} can be stored.", field="FILE", remedy="Split it."
        )
    type_ = wishes.type or (Type.EMAIL if file.lower().endswith(".eml") else Type.USER_INPUT)
    content, title, urn = _read(file, raw, type_)
    if not content.strip():
        raise errors.Unusable(f"{file} is empty.", field="FILE", remedy="Give a file with text in it.")
    mode = wishes.mode or (Mode.FOREGROUND if type_ is Type.USER_INPUT else Mode.BACKGROUND)
    spec: dict[str, Any] = {
        "type": type_,
        "clientId": wishes.client,
        "projectId": wishes.project,
        "groupId": wishes.group,
        "sourceUrn": wishes.source_urn or urn,
        "mode": mode,
        "queuePosition": wishes.position,
    }
    said = {key: value for key, value in spec.items() if value not in ("", None)}
    return Draft(wishes.name or _name(file, raw, wishes, type_), wishes.title or title, said, content)


def _read(file: str, raw: bytes, type_: Type) -> tuple[str, str, str]:
    """Content, title, source."""
    if file.lower().endswith(".eml") and type_ is Type.EMAIL:
        message = mail.read(raw)
        return message.text, message.title, message.urn
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.Unusable(
            f"{file} is not text: byte {error.start} is no UTF-8.",
            field="FILE",
            remedy="Convert it to UTF-8 text first, for example with iconv or pdftotext.",
        ) from error
    return text, "" if file == "-" else PurePath(file).name, ""


def _name(file: str, raw: bytes, wishes: Wishes, type_: Type) -> str:
    """The same file for the same client and type has the same name: submitted twice, it is one task."""
    identity = "\0".join((wishes.client, wishes.project, wishes.group, type_.value)).encode()
    digest = hashlib.sha256(identity + b"\0" + raw).hexdigest()[:8]
    stem = re.sub(r"[^a-z0-9]+", "-", "input" if file == "-" else PurePath(file).stem.lower())[:50].strip("-")
    return f"{stem or 'task'}-{digest}"
