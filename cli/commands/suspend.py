"""`suspend` and `resume`: hold tasks where they are, and let them go on."""

from __future__ import annotations

from cli import bulk, edits, options, sources
from cli.reading import Object
from cli.session import Session
from crds import phases


@options.choosing
def suspend(session: Session, chosen: bulk.Choice) -> None:
    """Hold tasks where they are; a run saves its checkpoint and stops. With connection/NAME: as `pause`."""
    if (names := sources.named(chosen)) is not None:
        sources.hold(session, names, held=True)
        return
    _hold(session, chosen, held=True)


@options.choosing
def resume(session: Session, chosen: bulk.Choice) -> None:
    """Let held tasks go on; a run goes on from its checkpoint. With connection/NAME: poll the Connection again."""
    if (names := sources.named(chosen)) is not None:
        sources.hold(session, names, held=False)
        return
    _hold(session, chosen, held=False)


def _hold(session: Session, chosen: bulk.Choice, *, held: bool) -> None:
    def change(raw: Object) -> edits.Patch | None:
        return edits.hold(raw, held)

    word, done = ("Suspend", "suspended") if held else ("Resume", "resumed")
    otherwise = "was suspended already" if held else "was not suspended"
    act = bulk.edited(session, change)
    bulk.run(session, chosen, bulk.Verb(word, done, otherwise, act, phases.UNFINISHED))
