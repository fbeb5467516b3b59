"""`submit`: make a task of a file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import text
from typer import Argument, Option

from cli import document, errors, options, reading, services, waiting
from cli.session import Session
from cli.views import story
from crds import scope
from crds.pendingtask import Mode, Type
from crds.values import ContentRef

_KB_SECONDS = 300.0


@options.connected
def run(
    session: Session,
    file: Annotated[str, Argument(metavar="FILE", help="File with text or a mail (.eml); `-` reads standard input.")],
    client: Annotated[str, Option(help="Client that owns the data (spec.clientId).", envvar="JERVIS_CLIENT")],
    project: Annotated[str, Option(help="Project of the client (spec.projectId).")] = "",
    group: Annotated[str, Option(help="Group of the project (spec.groupId).")] = "",
    type_: Annotated[
        Type | None,
        Option(
            "--type",
            metavar="TYPE",
            help="[default: EmailProcessing for .eml, else UserInputProcessing]",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        Mode | None,
        Option(help="[default: Foreground for UserInputProcessing, else Background]", show_default=False),
    ] = None,
    name: Annotated[str, Option(help="[default: from the file's name and content]", show_default=False)] = "",
    title: Annotated[str, Option(help="[default: the mail's subject or the file's name]", show_default=False)] = "",
    source_urn: Annotated[
        str, Option(help="Identity of the source (spec.sourceUrn); what is known from it is replaced.")
    ] = "",
    position: Annotated[int | None, Option(help="Explicit place in the queue (spec.queuePosition).")] = None,
    kb: Annotated[str, Option(help="URL of the knowledge base; needed above 32 KiB.", envvar="JERVIS_KB_URL")] = "",
    token: services.KbToken = "",
    wait: Annotated[
        bool, Option("--wait", help="Wait until the task has ended or asks a person; the exit status says which.")
    ] = False,
    timeout: Annotated[float, Option(help="Seconds that --wait waits.", min=0.0)] = 600.0,
) -> None:
    """Make a task of a file. More than 32 KiB goes to the knowledge base, the task then holds a reference."""
    wishes = document.Wishes(client, project, group, type_, mode, name, title, source_urn, position)
    draft = document.draft(file, _bytes(file), wishes)
    reference = _store(kb, token, wishes, draft) if draft.stored else None
    raw = session.kube.create(draft.manifest(reference))
    created = f"pendingtask.jervis.dev/{raw['metadata']['name']} created"
    if not wait:
        session.output.show(raw, text.Text(created))
        return
    # The name is worth having even if the wait is interrupted, and standard output belongs to the result.
    sys.stderr.write(created + "\n")
    raw = waiting.ended(session, raw["metadata"]["name"], timeout)
    session.output.show(raw, story.draw(reading.task(raw), session.now()))
    raise typer.Exit(waiting.code(raw))


def _bytes(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise errors.Unusable(
            f"{file!r} cannot be read: {error.strerror}.", field="FILE", remedy="Name a readable file, or - for input."
        ) from error


def _store(kb: str, token: str, wishes: document.Wishes, draft: document.Draft) -> ContentRef:
    """Raises the errors of `kb.client`."""
    if not kb:
        raise errors.Unusable(
            f"The content has {len(draft.content.encode())} bytes; an object holds at most 32768.",
            field="--kb",
            remedy="Give the knowledge base's URL: kubectl port-forward svc/jervis-kb-write 8080, --kb http://127.0.0.1:8080",
        )
    # The first use of the flags outside of an object; a wrong one is named before anything is stored.
    draft.manifest(ContentRef(key="unknown", sha256="0" * 64, bytes=1))
    owner = scope.Scope(client_id=wishes.client, project_id=wishes.project, group_id=wishes.group)
    return asyncio.run(_send(kb, token, owner, draft.content.encode()))


async def _send(url: str, token: str, owner: scope.Scope, body: bytes) -> ContentRef:
    async with services.knowledge(url, token, _KB_SECONDS) as kb:
        return await kb.store(owner, body, "text/plain; charset=utf-8")
