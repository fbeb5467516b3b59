"""A task that its namespace may not have: it waits, its condition gives the reason, and no slot is claimed for it.

The apiserver refuses such a task at its creation in a served namespace. This one is older, or the limit of its
namespace was lowered afterwards. It is no error of the run: the task continues once the mode or the limit is changed,
and a present run ends as usual. A status that claims more than was done (any client could write it while the namespace
was not served) causes neither reading nor launch.

Source: docs/admission.md.
"""

from __future__ import annotations

from controllers.admission import Refusal
from controllers.pendingtask.decision import Decision, View, condition, put, remark, to, wait
from crds import conditions, pendingtask
from crds.phases import Phase


def refused(view: View) -> Decision | None:
    """In a phase without a run: the task stays where it is."""
    found = view.state.refusal
    if found is None:
        return None
    return remark(view, _said(view, found), decision=wait(view.state.limits.recheck.total_seconds()))


def allowed(view: View) -> Decision | None:
    """The refusal is over: record that once."""
    if not pendingtask.not_allowed(view.task.status):
        return None
    return Decision({"conditions": put(view, condition(view, "Accepted", True, "Allowed", ""))})


def unread(view: View) -> Decision | None:
    """Qualifying: nothing is read; the task releases its place at the qualifier."""
    found = view.state.refusal
    if found is None:
        return None
    target = Phase.READY_FOR_QUALIFICATION if view.task.status.route is None else Phase.READY_FOR_GPU
    return to(view, target, found.reason, found.message, _said(view, found), warning=True)


def unlaunched(view: View) -> Decision | None:
    """DispatchedGpu without a Job: none is created; the task releases its slot."""
    found = view.state.refusal
    if found is None or view.state.job is not None or view.state.working or view.live_pods():
        return None
    cond = _said(view, found)
    return to(view, Phase.READY_FOR_GPU, found.reason, found.message, cond, warning=True, fields={"dispatch": None})


def _said(view: View, found: Refusal) -> conditions.Condition:
    return condition(view, "Accepted", False, found.reason, found.message)
