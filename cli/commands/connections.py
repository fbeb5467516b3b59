"""`connections`, `pause`, `resync`: the sources, how far they are read, and what is wrong with them."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from cli import options, output, reading, sources
from cli.session import Session
from cli.views import connections as view
from crds import labels

Name = Annotated[
    str,
    Argument(metavar="NAME", help="Name of the Connection.", autocompletion=options.complete_connection),
]


@options.connected
def run(
    session: Session,
    name: Annotated[
        str,
        Argument(
            metavar="[NAME]",
            help="Name of a Connection, for all that is known of it.",
            autocompletion=options.complete_connection,
        ),
    ] = "",
) -> None:
    """Connections: whether they are polled, since when items wait, which items failed and why."""
    if name:
        raw = session.kube.connection(sources.plain(name))
        session.output.show(raw, view.story(reading.connection(raw), session.now()))
        return
    raws = session.kube.connections()
    drawn = view.draw([reading.connection(raw) for raw in raws], session.now())
    session.output.show(output.document(raws), drawn)


@options.acting
def pause(session: Session, name: Name) -> None:
    """Stop polling a Connection; its place is kept, and what was fetched still becomes tasks."""
    sources.hold(session, (sources.plain(name),), held=True)


@options.acting
def resync(
    session: Session,
    name: Name,
    confirm: Annotated[
        str,
        Option(
            "--confirm",
            metavar="TIME",
            help="Let the items leave that the sweep of TIME missed, however many; nothing is read again.",
        ),
    ] = "",
) -> None:
    """Read the source of a Connection from its beginning, now. Items that are known make no second task."""
    if confirm:
        sources.confirm(session, sources.plain(name), confirm)
        return
    sources.wish(session, (sources.plain(name),), labels.RESYNC)
