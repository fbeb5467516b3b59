"""Flags that every command shares: before the command and behind it; help that a stranger understands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer import main as typer

from cli import __main__ as main
from cli import complete
from cli.knowledge import __main__ as knowledge
from tests.cli import site
from tests.cli.test_bulk import FAILED, verdicts


@pytest.mark.apiserver
def test_the_cluster_s_flags_stand_before_the_command_as_well(place: site.Site, call: site.Call) -> None:
    place.task("here", status={"phase": "ReadyForGpu"})
    kubeconfig, namespace = place.flags()[:2], place.flags()[2:]
    before = call(*place.flags(), "--request-timeout", "20", "queue", "--phase", "ReadyForGpu", flags=()).succeeded()
    assert before.out.splitlines()[1].split()[1] == "here"
    # What stands behind the command counts.
    call("-n", "elsewhere", *kubeconfig, "get", "here", flags=namespace).succeeded()
    call(*kubeconfig, "-n", "elsewhere", "get", "here", flags=()).refused()
    assert complete.lines([*place.flags(), "get", "he"]) == ["here", ":4"]


@pytest.mark.apiserver
def test_a_dry_run_checks_and_writes_nothing(place: site.Site, call: site.Call) -> None:
    place.task("mail", status=FAILED)
    place.task("other", status=FAILED)
    before = {name: place.get(name) for name in place.names()}
    one = call("retry", "mail", "--dry-run")
    assert (one.code, one.out) == (0, "pendingtask.jervis.dev/mail will be tried again (server dry run)\n"), one.err
    # Of a selection nothing has to be confirmed.
    every = call("delete", "--all", "--dry-run")
    assert sorted(every.out.splitlines()) == [
        "pendingtask.jervis.dev/mail deleted (server dry run)",
        "pendingtask.jervis.dev/other deleted (server dry run)",
    ], every.err
    told = call("tell", "mail", "Hurry.", "--id", "m1", "--dry-run")
    assert told.out == "pendingtask.jervis.dev/mail message added (m1) (server dry run)\n", told.err
    # The apiserver has looked at it: a wrong value is refused as it would be.
    call("prioritize", "mail", "--position", "0", "--dry-run").refused("spec.queuePosition")
    assert {name: place.get(name) for name in place.names()} == before
    assert verdicts(place) == {}


def _commands() -> Iterator[tuple[str, Any]]:
    for program, app in (("kubectl jervis", main.application()), ("jervis-kb", knowledge.application())):
        group: Any = typer.get_command(app)
        yield program, group
        yield from ((f"{program} {name}", one) for name, one in group.commands.items())


VAGUE = ("whose data it is", "in words", "else the", "mend", "so many", "how to print", "as if it were", "of this run")
"""Beginnings of sentences without a subject that once stood here."""


@pytest.mark.parametrize(("name", "command"), list(_commands()), ids=lambda one: one if isinstance(one, str) else "")
def test_every_option_says_what_it_is(name: str, command: Any) -> None:
    assert command.help, name
    for one in command.params:
        said = one.help
        assert said, f"{name} {one.name}"
        assert said[0].isupper() or said.startswith(("spec.", "[default:")), f"{name} {one.name}: {said}"
        assert not any(word in said.lower() for word in VAGUE), f"{name} {one.name}: {said}"
