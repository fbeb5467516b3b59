"""The flags of `submit` and `ask` that permit effects, and the question before a task has those of a model."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich import console
from typer import Option

from cli import errors, services
from cli.session import Session
from cli.views import table
from crds import permits
from crds.permits import Permit

if TYPE_CHECKING:
    from cli import proposing

_SECONDS = 10.0
_PIPED = 10_000
"""Characters of a line that no terminal shows: a table is not folded there."""
_ROLE = "orchestrator"
"""The role whose model proposes: it reads the text when the task runs, too."""

Permitted = Annotated[
    list[str] | None,
    Option(
        "--permit",
        metavar="FIELDS",
        help="An effect that needs no approval (spec.permits): 'tool=sendMail targets=ann@example.com,*@example.com"
        " most=2 notAfter=2026-12-31'; may be repeated.",
    ),
]
Propose = Annotated[
    bool, Option("--propose", help="Have a model propose permits from the text, and confirm them before it is a task.")
]
Confirmed = Annotated[bool, Option("--confirmed", help="With --propose: take what is proposed without being asked.")]
Model = Annotated[str, Option("--model", help="Model that proposes. [default: that of the release's runs]")]
Router = Annotated[str, Option(help="URL of the router. [default: through the apiserver]", envvar="JERVIS_ROUTER_URL")]
RouterToken = Annotated[
    str, Option(help="Bearer token for the router, if it requires one.", envvar="JERVIS_ROUTER_TOKEN")
]


@dataclass(frozen=True)
class Flags:
    """As they were given."""

    permits: Sequence[str] = ()
    propose: bool = False
    confirmed: bool = False
    model: str = ""
    router: str = ""
    token: str = ""


def given(flags: Flags) -> tuple[Permit, ...]:
    """Those of --permit. Raises `Unusable`, which names the field of the permit."""
    found = []
    for text in flags.permits:
        try:
            found.append(permits.parse(text))
        except ValueError as error:
            raise errors.Unusable(
                f"{text[:200]!r} is no permit: {error}.",
                field="--permit",
                remedy="Write for example: --permit 'tool=sendMail targets=ann@example.com'",
            ) from error
    if flags.confirmed and not flags.propose:
        raise errors.Unusable("--confirmed goes with --propose.", field="--confirmed", remedy="Leave it out.")
    return tuple(found)


def confirmed(session: Session, flags: Flags, text: str) -> tuple[Permit, ...]:
    """Those of --permit, and of what a model proposes those that a person confirms. Raises `Unusable` without a
    terminal to ask at, and the errors of `router.client`."""
    own = given(flags)
    if not flags.propose:
        return own
    if not flags.confirmed and not sys.stdin.isatty():
        raise errors.Unusable(
            "What is proposed has to be confirmed, and there is no terminal.",
            field="--propose",
            remedy="Give --confirmed to take it unseen, or --permit in its place.",
        )
    from cli import proposing

    if len(text) > proposing.MOST_CHARS:
        sys.stderr.write(f"The model reads the first {proposing.MOST_CHARS} of {len(text)} characters.\n")
    proposals = asyncio.run(_proposed(session, flags, text))
    _show(proposals)
    if not proposals:
        return own
    if flags.confirmed:
        return (*own, *(one.permit for one in proposals))
    while True:
        answer = typer.prompt("Permit these? yes, none, or numbers such as 1,3 (Ctrl-C: no task)", err=True)
        if (taken := proposing.chosen(str(answer), proposals)) is not None:
            return (*own, *taken)


async def _proposed(session: Session, flags: Flags, text: str) -> list[proposing.Proposal]:
    from cli import proposing

    async with services.router(session, flags.router, flags.token, _SECONDS) as client:
        model = flags.model
        if not model:
            roles = (await client.status()).models.roles
            model = next((role.model for role in roles if role.role == _ROLE), "")
    if not model:
        raise errors.Unusable(
            "The release names no model for runs.", field="--propose", remedy="Give one with --model NAME."
        )
    # A model may have to be loaded: the client waits as long as the router does.
    async with services.router(session, flags.router, flags.token, None) as client:
        return await proposing.propose(client, model, text)


def _show(proposals: Sequence[proposing.Proposal]) -> None:
    """On standard error: standard output belongs to the task."""
    shown = console.Console(stderr=True, width=None if sys.stderr.isatty() else _PIPED)
    if not proposals:
        shown.print("The text orders no effect; the task is created without permits of a model.", highlight=False)
        return
    rows = [
        (
            str(number),
            permits.text(one.permit),
            one.sentence or "(no sentence of the text)",
            f"NOT IN THE TEXT: {', '.join(one.foreign)}" if one.foreign else "",
        )
        for number, one in enumerate(proposals, start=1)
    ]
    shown.print(table.plain(("#", "PERMIT", "BECAUSE OF", "LOOK AT"), rows))
