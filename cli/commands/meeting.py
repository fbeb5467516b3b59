"""`meetings`, `meeting upload`, `meeting retry`, `meeting delete`: recordings and what became of them."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import text
from typer import Argument, Option

from cli import errors, options, output
from cli.session import Session
from cli.views import meetings as view

if TYPE_CHECKING:
    from contracts.api import meeting

_SECONDS = 600.0
"""Of one call: the last part of a recording is answered after all of it was read back."""
Url = Annotated[str, Option("--sources", envvar="JERVIS_SOURCES_URL", help="URL of the sources process.")]
Token = Annotated[
    str, Option("--token", envvar="JERVIS_SOURCES_TOKEN", help="Bearer token for it, one of sources.tokens.")
]
Id = Annotated[str, Argument(metavar="ID", help="Id of the meeting.")]
commands = typer.Typer(help="Recordings of meetings.", no_args_is_help=True, rich_markup_mode=None)


@options.connected
def listed(
    session: Session,
    connection: Annotated[str, Option(help="Only those of this Connection.")] = "",
    sources: Url = "",
    token: Token = "",
) -> None:
    """Meetings: how far they are, and why one failed."""

    async def ask() -> meeting.Page:
        from cli import meetings

        async with meetings.reached(session, sources, token, _SECONDS) as api:
            return await api.listed(session.kube.namespace, connection)

    page = asyncio.run(ask())
    raws = [one.wire() for one in page.meetings]
    session.output.show(output.document(raws), view.draw(page.meetings, session.now()))


@options.connected
def upload(
    session: Session,
    file: Annotated[Path, Argument(metavar="FILE", help="The recording: WAV, FLAC, Ogg, MP3, MP4 (M4A) or WebM.")],
    connection: Annotated[str, Option(help="Connection of type Meeting.", autocompletion=options.complete_connection)],
    title: Annotated[str, Option(help="What the meeting is called. [default: the file's name]")] = "",
    date: Annotated[
        str, Option(metavar="TIME", help="When it began, as 2027-03-01T12:00:00Z. [default: the file's time]")
    ] = "",
    kind: Annotated[str, Option("--type", help="What kind of meeting, for example standup.")] = "",
    language: Annotated[str, Option(help="Spoken language (ISO 639), for example cs. [default: found out]")] = "",
    participant: Annotated[list[str] | None, Option(help="Who was there; may be given several times.")] = None,
    sources: Url = "",
    token: Token = "",
) -> None:
    """Upload a recording. Called again after a break it goes on where it stopped."""
    from cli import meetings

    size, sha256 = meetings.checked(file)
    draft = _draft(session, file, connection, title, date, kind, language, tuple(participant or ()))

    async def send() -> meeting.Meeting:
        async with meetings.reached(session, sources, token, _SECONDS) as api:
            one, there = await meetings.begun(api, draft, size)
            if there:
                session.output.note(f"meeting {one.id} goes on at {one.bytes >> 20} of {size >> 20} MiB")
            with view.Progress(size, shown=sys.stderr.isatty()) as shown:
                return await api.upload(one.id, file, size, sha256, shown.at)

    one = asyncio.run(send())
    session.output.show(one.wire(), text.Text(f"meeting {one.id} uploaded: {one.state.value}"))


@options.connected
def retry(session: Session, meeting_id: Id, sources: Url = "", token: Token = "") -> None:
    """Have a failed meeting transcribed again."""

    async def ask() -> meeting.Meeting:
        from cli import meetings

        async with meetings.reached(session, sources, token, _SECONDS) as api:
            return await api.retry(meeting_id)

    one = asyncio.run(ask())
    session.output.show(one.wire(), text.Text(f"meeting {one.id} will be transcribed again"))


@options.connected
def delete(session: Session, meeting_id: Id, sources: Url = "", token: Token = "") -> None:
    """Delete a meeting, its recording and its transcript; its document leaves with the next sweep."""

    async def ask() -> None:
        from cli import meetings

        async with meetings.reached(session, sources, token, _SECONDS) as api:
            await api.delete(meeting_id)

    asyncio.run(ask())
    session.output.show({"id": meeting_id}, text.Text(f"meeting {meeting_id} deleted"))


for _name, _run in {"upload": upload, "retry": retry, "delete": delete}.items():
    commands.command(_name)(_run)


def _draft(
    session: Session,
    file: Path,
    connection: str,
    title: str,
    date: str,
    kind: str,
    language: str,
    participants: tuple[str, ...],
) -> meeting.Draft:
    """Raises `Unusable` naming the flag."""
    import pydantic

    from contracts.api import meeting

    try:
        return meeting.Draft.model_validate(
            {
                "namespace": session.kube.namespace,
                "connection": connection,
                "title": title or file.stem,
                "date": date or datetime.fromtimestamp(file.stat().st_mtime, UTC),
                "type": kind,
                "language": language,
                "participants": participants,
            }
        )
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise errors.Unusable(str(first["msg"]), field=f"--{str(first['loc'][0]).rstrip('s')}") from error
