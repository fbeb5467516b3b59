"""Verbs on Connections, which are named as kubectl names them where tasks may be meant: `connection/NAME`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich import text

from cli import bulk, edits, errors, output
from cli.reading import Object
from cli.session import Session
from crds import labels

_KIND = ("conn", "connection", "connections", "connection.jervis.dev", "connections.jervis.dev")
_PLURAL = "connections"


def named(chosen: bulk.Choice) -> tuple[str, ...] | None:
    """The names of Connections; None where tasks are meant. Raises `Unusable` for both at once."""
    meant = [one for one in chosen.names if one.partition("/")[0] in _KIND and "/" in one]
    if not meant:
        return None
    if len(meant) < len(chosen.names) or chosen.selects:
        raise errors.Unusable(
            "Tasks and Connections exclude each other.", field="NAME", remedy="Give the command once for each kind."
        )
    return tuple(plain(one) for one in meant)


def plain(name: str) -> str:
    """`NAME` of `connection/NAME`."""
    kind, slash, rest = name.partition("/")
    return rest if slash and kind in _KIND else name


def hold(session: Session, names: Sequence[str], *, held: bool) -> None:
    """Stop polling them, or go on."""
    done, otherwise = ("paused", "was paused already") if held else ("resumed", "was not paused")
    _each(session, names, lambda raw: edits.pause(raw, held), done, otherwise)


def wish(session: Session, names: Sequence[str], annotation: str) -> None:
    """Have their failed items tried again, or their sources read from the beginning."""
    value = session.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
    what = "failed items are tried again" if annotation == labels.RETRY else "source is read from its beginning"
    otherwise = "was asked for that already, and it is not done yet"
    _each(session, names, lambda raw: edits.wish(raw, annotation, value), f"will be polled now: its {what}", otherwise)


def confirm(session: Session, name: str, seen: str) -> None:
    """Have those items leave that the sweep of that time missed."""
    done = f"will be swept now: what was missing at {seen} leaves"
    _each(session, (name,), lambda raw: edits.confirm(raw, seen), done, "was asked for that already")


def _each(
    session: Session,
    names: Sequence[str],
    change: Callable[[Object], edits.Patch | None],
    done: str,
    otherwise: str,
) -> None:
    raws, lines = [], []
    for name in dict.fromkeys(names):
        raw, written = session.kube.edit(name, change, _PLURAL)
        raws.append(raw)
        lines.append(f"connection.jervis.dev/{name} {done if written else otherwise}{session.trial}")
    session.output.show(raws[0] if len(raws) == 1 else output.document(raws), text.Text("\n".join(lines)))
