"""What the admission policies repeat from our code: the table of phases, and which fields of a task's spec freeze when.

The policies stand in `charts/jervis/templates/admission`; the CEL that must never differ from the operator is written
here into one file of named templates. `python -m hack.chart` renews it, a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from controllers.pendingtask import phases
from crds import order, pendingtask
from crds.phases import HOLDS_SLOT, TERMINAL, Phase

TARGET = Path(__file__).resolve().parents[2] / "charts" / "jervis" / "templates" / "admission" / "_rules.tpl"

READ_BY_A_RUN = (
    "projectId", "groupId", "sourceUrn", "correlationId", "timeZone", "content", "contentRef", "attachments", "facts",
    "access", "schedule",
)  # fmt: skip
"""Frozen at the first dispatch: a run and its checkpoint rest on them."""
PLACE = ("projectId", "groupId", "sourceUrn")
"""Of those, frozen from the moment that the knowledge base may begin to read: what it has read of a task whose place
changes would stay in the old one, where no search finds it. A task says nothing while it is read at first (its phase
is New), so only one that waits for its time is sure not to be read."""
STEERING = (
    "mode", "queuePosition", "messages", "answers", "approval", "permits", "approvalPolicy", "suspend",
    "activeDeadlineSeconds", "budget",
)  # fmt: skip
"""A person steers with them while the task lives; they are not read once it is finished."""
AFTER_THE_END = ("ttlSecondsAfterFinished",)
"""Means something after the end only, so it stays open."""
FIXED_BY_THE_CRD = ("type", "clientId", "onBehalfOf", "git")
"""The CRD's own rules refuse any change."""

_HEAD = """\
{{- /*
Written by `python -m hack.chart` from controllers/pendingtask/phases.py, crds/pendingtask.py, crds/order.py and
hack/chart/admission.py; do not edit.
*/}}
"""


class UndecidedError(ValueError):
    """A field of the spec without a decision when it freezes, or a decision about a field that is not there."""


def rules() -> str:
    """The text of `_rules.tpl`: one named template per CEL expression. Raises UndecidedError."""
    decided = [*READ_BY_A_RUN, *STEERING, *AFTER_THE_END, *FIXED_BY_THE_CRD]
    known = [field.alias or name for name, field in pendingtask.Spec.model_fields.items()]
    if sorted(decided) != sorted(known):
        odd = ", ".join(sorted(set(decided) ^ set(known))) or "one is listed twice"
        raise UndecidedError(f"spec.{odd}: decide in hack/chart/admission.py when it freezes")
    expressions = {
        "transitions": _transitions(),
        "beforeRoute": _list(sorted(phases.BEFORE_ROUTE)),
        "finishedPhases": _list(sorted(TERMINAL)),
        "dispatchedPhases": _list(sorted(HOLDS_SLOT | TERMINAL)),
        "foregroundTypes": _list(sorted(order.CHAT)),
        "changedInput": _changed(READ_BY_A_RUN),
        "changedPlace": _changed(PLACE),
        "changedSteering": _changed(STEERING),
    }
    return _HEAD + "\n".join(_named(name, cel) for name, cel in expressions.items())


def _named(name: str, cel: str) -> str:
    return f'{{{{- define "jervis.admission.{name}" -}}}}\n{cel}\n{{{{- end }}}}\n'


def _transitions() -> str:
    """A map from phase to the phases to which one write may take a task: a write may hold several steps."""
    lines = (f"  '{source}': {_list(sorted(phases.reach(source)))}" for source in Phase)
    return "{\n" + ",\n".join(lines) + "\n}"


def _changed(fields: Iterable[str]) -> str:
    """The list of those fields, as paths, that the request changes; absent and empty are different things."""
    terms = (f"(object.spec.?{name} == oldObject.spec.?{name} ? [] : ['spec.{name}'])" for name in fields)
    return " +\n".join(terms)


def _list(names: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"
