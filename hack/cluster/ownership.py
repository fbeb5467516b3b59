"""Which state directory holds a cluster's name: one at a time, and a newcomer says whom it replaces."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from hack.cluster import layout as places
from hack.cluster.layout import Layout


@contextlib.contextmanager
def exclusive(layout: Layout) -> Iterator[None]:
    """One command at a time per name; a second one waits."""
    places.RUN.mkdir(parents=True, exist_ok=True, mode=0o755)
    with (places.RUN / f"{layout.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def claim(layout: Layout) -> None:
    layout.run.mkdir(parents=True, exist_ok=True, mode=0o700)
    _owner(layout).write_text(str(layout.directory))


def predecessor(layout: Layout) -> Layout | None:
    """The same name in another state directory, if that one claimed it last."""
    try:
        directory = Path(_owner(layout).read_text())
    except FileNotFoundError:
        return None
    return None if directory == layout.directory else places.of(directory, layout.name)


def _owner(layout: Layout) -> Path:
    return layout.run / "owner"
