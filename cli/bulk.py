"""One verb for many tasks: which ones, a confirmation with their number, several at once, one account of it.

Tasks are given by name, or selected: by labels, by fields, by client, or all of the namespace. A selected task to which
the verb does not apply is skipped; one that was named is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any

import typer
from rich import text

from cli import codes, errors, output
from cli.reading import Object
from cli.session import Session
from crds.errors import JervisError, Operational
from text import printable

_SHOWN = 20
"""Failures that are printed; the account counts them all."""


@dataclass(frozen=True)
class Choice:
    """The tasks that are meant: `names`, or those that the selectors match. `everything`: all of the namespace."""

    names: tuple[str, ...] = ()
    labels: str = ""
    fields: str = ""
    client: str = ""
    everything: bool = False
    yes: bool = False
    parallel: int = 8

    @property
    def selects(self) -> bool:
        """By selector and not by name."""
        return bool(self.labels or self.fields or self.client or self.everything)

    def only(self, why: str) -> str:
        """The one name; raises `Unusable` when it is not exactly one. `why` names the flag that needs it."""
        if self.selects or len(self.names) != 1:
            raise errors.Unusable(f"{why} takes exactly one task.", field="NAME", remedy="Give one name.")
        return self.names[0]


@dataclass(frozen=True)
class Verb:
    """What is done. `act` gets the task's metadata and answers the object and whether it was changed.

    `word` stands in the confirmation, `done` and `otherwise` behind a task's name. `fields` is a field selector that
    leaves out, before anything is read, tasks to which the verb never applies.
    """

    word: str
    done: str
    otherwise: str
    act: Callable[[Object], tuple[Object, bool]]
    fields: str = ""


@dataclass
class Account:
    """What came of it."""

    changed: int = 0
    unchanged: int = 0
    skipped: int = 0

    def line(self, failed: int) -> str:
        """In a line."""
        return f"{self.changed} changed, {self.unchanged} unchanged, {self.skipped} skipped, {failed} failed."


def edited(
    session: Session, change: Callable[[Object], Mapping[str, Any] | None]
) -> Callable[[Object], tuple[Object, bool]]:
    """`act` of a verb that edits the spec."""
    return lambda raw: session.kube.edit(raw["metadata"]["name"], change)


def run(session: Session, choice: Choice, verb: Verb) -> None:
    """Do it. Raises what went wrong with the only task, else exits with 1, or with 75 when all that failed may succeed
    later."""
    if choice.selects and choice.names:
        raise errors.Unusable(
            "Names and selectors exclude each other.", field="NAME", remedy="Give names, or -l, --client or --all."
        )
    if not choice.selects and not choice.names:
        raise errors.Unusable(
            "No task is given.",
            field="NAME",
            remedy="Give names, or select with -l, --field-selector, --client, --all.",
        )
    if len(choice.names) == 1:
        raw, written = verb.act({"metadata": {"name": choice.names[0]}})
        session.output.show(raw, text.Text(_sentence(session, verb, raw, written)))
        return
    found = (
        _selected(session, choice, verb) if choice.selects else [{"metadata": {"name": one}} for one in choice.names]
    )
    _confirmed(session, choice, verb, len(found))
    _all(session, choice, verb, found)


def _selected(session: Session, choice: Choice, verb: Verb) -> list[Object]:
    owner = f"spec.clientId={choice.client}" if choice.client else ""
    fields = ",".join(each for each in (verb.fields, owner, choice.fields) if each)
    return list(session.kube.metadata(labels=choice.labels, fields=fields))


def _confirmed(session: Session, choice: Choice, verb: Verb, count: int) -> None:
    if choice.yes or not choice.selects or not count or session.kube.dry_run:
        return
    question = f"{verb.word} {count} tasks of namespace {session.kube.namespace}?"
    if not sys.stdin.isatty():
        raise errors.Unusable(f"{question} Nothing was done.", field="--yes", remedy="Confirm it with --yes.")
    if not typer.confirm(question, err=True):
        raise typer.Abort


def _all(session: Session, choice: Choice, verb: Verb, found: Sequence[Object]) -> None:
    account, failed, raws = Account(), list[tuple[str, JervisError]](), list[Object]()
    plain = session.output.format is output.Format.TABLE
    with futures.ThreadPoolExecutor(choice.parallel) as pool:
        waiting = {pool.submit(verb.act, raw): str(raw["metadata"]["name"]) for raw in found}
        try:
            for one in futures.as_completed(waiting):
                try:
                    raw, written = one.result()
                except errors.Misplaced as error:
                    if choice.selects:
                        account.skipped += 1
                    else:
                        failed.append((waiting[one], error))
                    continue
                except JervisError as error:
                    failed.append((waiting[one], error))
                    continue
                account.changed += written
                account.unchanged += not written
                if plain:
                    sys.stdout.write(_sentence(session, verb, raw, written) + "\n")
                else:
                    raws.append(raw)
        finally:
            pool.shutdown(cancel_futures=True)
    if not plain:
        raws.sort(key=lambda raw: str(raw["metadata"]["name"]))
        problems = [{"name": name, "message": error.message} for name, error in sorted(failed, key=_name)]
        session.output.show(output.document(raws, failed=problems, skipped=account.skipped), text.Text())
    _report(account, failed)


def _report(account: Account, failed: Sequence[tuple[str, JervisError]]) -> None:
    lines = [f"Error: {name}: {error.message}" for name, error in sorted(failed, key=_name)[:_SHOWN]]
    if len(failed) > _SHOWN:
        lines.append(f"Error: and {len(failed) - _SHOWN} more.")
    sys.stderr.write(printable.text("\n".join([*lines, account.line(len(failed))])) + "\n")
    if failed:
        raise typer.Exit(_code(error for _, error in failed))


def _code(found: Iterable[JervisError]) -> int:
    return codes.LATER if all(isinstance(one, Operational) for one in found) else codes.REFUSED


def _name(one: tuple[str, JervisError]) -> str:
    return one[0]


def _sentence(session: Session, verb: Verb, raw: Object, written: bool) -> str:
    said = verb.done if written else verb.otherwise
    return f"pendingtask.jervis.dev/{raw['metadata']['name']} {said}{session.trial}"
