"""`submit`: make a task of a file."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich import text
from typer import Argument, Option

from cli import attached, document, errors, options, permitting, reading, services, waiting
from cli.session import Session
from cli.views import story
from crds import scope
from crds.pendingtask import Mode, Type
from crds.values import MOST_STORED_BYTES, STORED_BYTES, ContentRef

_KB_SECONDS = 300.0
_TEXT = "text/plain; charset=utf-8"

Client = Annotated[str, Option(help="Client that owns the data (spec.clientId).", envvar="JERVIS_CLIENT")]
Project = Annotated[str, Option(help="Project of the client (spec.projectId).")]
Group = Annotated[str, Option(help="Group of the project (spec.groupId).")]
Wait = Annotated[
    bool, Option("--wait", help="Wait until the task has ended or asks a person; the exit status says which.")
]
TimeZone = Annotated[
    str,
    Option(
        metavar="ZONE",
        help="Your time zone (spec.timeZone), such as Europe/Prague: what day it is. [default: as the text or a rule "
        "says, else UTC]",
        envvar="JERVIS_TIME_ZONE",
        show_default=False,
    ),
]
Seconds = Annotated[float, Option("--timeout", help="Seconds that --wait waits.", min=0.0)]


@options.acting
def run(
    session: Session,
    file: Annotated[str, Argument(metavar="FILE", help="File with text or a mail (.eml); `-` reads standard input.")],
    client: Client,
    project: Project = "",
    group: Group = "",
    type_: Annotated[
        Type | None,
        Option(
            "--type",
            metavar="TYPE",
            help="Type of the task (spec.type). [default: EmailProcessing for .eml, else UserInputProcessing]",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        Mode | None,
        Option(
            help="Mode of the task (spec.mode). [default: Foreground for UserInputProcessing, else Background]",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str, Option(help="Name of the task. [default: from the file's name and content]", show_default=False)
    ] = "",
    title: Annotated[
        str, Option(help="Title of the task. [default: the mail's subject or the file's name]", show_default=False)
    ] = "",
    source_urn: Annotated[
        str, Option(help="Identity of the source (spec.sourceUrn); what is known from it is replaced.")
    ] = "",
    position: Annotated[int | None, Option(help="Explicit place in the queue (spec.queuePosition).")] = None,
    kb: services.KbUrl = "",
    token: services.KbToken = "",
    attach: Annotated[
        list[str] | None, Option(metavar="PATH", help="File that goes along as an attachment; may be repeated.")
    ] = None,
    attachments: Annotated[
        bool, Option("--attachments/--no-attachments", help="Send the attachments of a mail along.")
    ] = True,
    max_bytes: Annotated[
        int,
        Option(
            help="Bytes that the knowledge base stores as one content (kb.settings.maxContentBytes).",
            min=1,
            max=MOST_STORED_BYTES,
        ),
    ] = STORED_BYTES,
    time_zone: TimeZone = "",
    permit: permitting.Permitted = None,
    propose: permitting.Propose = False,
    confirmed: permitting.Confirmed = False,
    model: permitting.Model = "",
    router: permitting.Router = "",
    router_token: permitting.RouterToken = "",
    wait: Wait = False,
    timeout: Seconds = 600.0,
) -> None:
    """Make a task of a file. Attachments and more than 32 KiB of text go to the knowledge base."""
    one_of(session, wait=wait)
    flags = permitting.Flags(permit or (), propose, confirmed, model, router, router_token)
    files = tuple(attached.named(path) for path in attach or ())
    given = (client, project, group, type_, mode, name, title, source_urn, position)
    wishes = document.Wishes(*given, files=files, own_files=attachments, largest=max_bytes, time_zone=time_zone)
    raw_file = read(file)
    # What is wrong with the file is said before a model reads it.
    draft = document.draft(file, raw_file, replace(wishes, permits=permitting.given(flags)))
    if propose:
        draft = document.draft(
            file, raw_file, replace(wishes, permits=permitting.confirmed(session, flags, draft.content))
        )
    raw = session.kube.create(_manifest(session, kb, token, wishes, draft))
    if not wait:
        created(session, raw)
        return
    raw = waited(session, raw, timeout)
    session.output.show(raw, story.draw(reading.task(raw), session.now()))
    raise typer.Exit(waiting.code(raw))


def one_of(session: Session, *, wait: bool) -> None:
    """Raises `Unusable` for --wait with --dry-run."""
    if wait and session.kube.dry_run:
        raise errors.Unusable("--wait and --dry-run exclude each other.", field="--wait", remedy="Give one of them.")


def created(session: Session, raw: reading.Object) -> None:
    """Say which task was created."""
    session.output.show(raw, text.Text(_sentence(session, raw)))


def waited(session: Session, raw: reading.Object, seconds: float) -> reading.Object:
    """The created task once it has ended or asks a person; raises `Timeout`."""
    # The name is worth having even if the wait is interrupted, and standard output belongs to the result.
    sys.stderr.write(_sentence(session, raw) + "\n")
    return waiting.ended(session, raw["metadata"]["name"], seconds)


def _sentence(session: Session, raw: reading.Object) -> str:
    return f"pendingtask.jervis.dev/{raw['metadata']['name']} created{session.trial}"


def read(file: str) -> bytes:
    """Bytes of a file, or of standard input for `-`. Raises `Unusable`."""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise errors.Unusable(
            f"{file!r} cannot be read: {error.strerror}.", field="FILE", remedy="Name a readable file, or - for input."
        ) from error


def _manifest(session: Session, kb: str, token: str, wishes: document.Wishes, draft: document.Draft) -> reading.Object:
    """The object, after what does not fit into it was stored. Raises the errors of `kb.client`."""
    content = draft.content.encode()
    # A wrong flag is named before anything is stored; a dry run stores nothing at all.
    reference = document.unstored(content) if draft.stored else None
    checked = draft.manifest(reference, [document.unstored(one.body) for one in draft.files])
    if session.kube.dry_run or not (draft.stored or draft.files):
        return checked
    owner = scope.Scope(client_id=wishes.client, project_id=wishes.project, group_id=wishes.group)
    wanted = [(one.body, one.media_type) for one in draft.files]
    wanted += [(content, _TEXT)] if draft.stored else []
    try:
        kept = asyncio.run(_store(session, kb, token, owner, wanted))
    except errors.Unusable as error:
        if draft.files:
            raise _homeless(draft, error) from error
        raise
    return draft.manifest(kept[-1] if draft.stored else None, kept[: len(draft.files)])


def _homeless(draft: document.Draft, error: errors.Unusable) -> errors.Unusable:
    """There is no way to the knowledge base, which the attachments need."""
    names = ", ".join(repr(one.name) for one in draft.files)
    return errors.Unusable(
        f"Attachments are kept in the knowledge base: {names}. {error.message}",
        field=error.field,
        remedy=f"{error.remedy} Or leave out those of the mail with --no-attachments.",
    )


async def _store(
    session: Session, url: str, token: str, owner: scope.Scope, wanted: Sequence[tuple[bytes, str]]
) -> list[ContentRef]:
    async with services.knowledge(url, token, _KB_SECONDS, session=session) as kb:
        return [await kb.store(owner, *one) for one in wanted]
