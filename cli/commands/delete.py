"""`delete`: remove tasks; a run under way is stopped."""

from __future__ import annotations

from cli import bulk, options
from cli.reading import Object
from cli.session import Session


@options.choosing
def run(session: Session, chosen: bulk.Choice) -> None:
    """Delete tasks and stop their runs. What the knowledge base learned from them stays; see erase."""

    def act(raw: Object) -> tuple[Object, bool]:
        found = raw if "uid" in raw["metadata"] else session.kube.task(raw["metadata"]["name"])
        session.kube.delete(found)
        return found, True

    bulk.run(session, chosen, bulk.Verb("Delete", "deleted", "", act))
