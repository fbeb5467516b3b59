"""A task that its namespace may not have: it waits, says why, and is claimed by nobody.

The apiserver refuses such a task when it is created in a namespace that is served; this one was there before, or its
namespace has lost what it had. It is no error of the run: once the mode is changed or the limit is, the task goes on.
What runs already ends as usual. A status that claims more than was done (anybody could write it while the namespace was
not served) leads nowhere either: neither reading nor launch follows from it. Source: docs/admission.md.
"""

from __future__ import annotations

from controllers.admission import Refusal
from controllers.pendingtask.decision import Decision, View, condition, put, remark, to, wait
from crds import conditions, pendingtask
from crds.phases import Phase


def refused(view: View) -> Decision | None:
    """In a phase that runs nothing: stay."""
    found = view.state.refusal
    if found is None:
        return None
    return remark(view, _said(view, found), decision=wait(view.state.limits.recheck.total_seconds()))


def allowed(view: View) -> Decision | None:
    """It may be processed after all: say so once."""
    if not pendingtask.not_allowed(view.task.status):
        return None
    return Decision({"conditions": put(view, condition(view, "Accepted", True, "Allowed", ""))})


def unread(view: View) -> Decision | None:
    """Qualifying: nothing is read, and the place at the qualifier is for others."""
    found = view.state.refusal
    if found is None:
        return None
    target = Phase.READY_FOR_QUALIFICATION if view.task.status.route is None else Phase.READY_FOR_GPU
    return to(view, target, found.reason, found.message, _said(view, found), warning=True)


def unlaunched(view: View) -> Decision | None:
    """DispatchedGpu without a Job: none is created, and the slot is for others."""
    found = view.state.refusal
    if found is None or view.state.job is not None or view.state.working or view.live_pods():
        return None
    said = _said(view, found)
    return to(view, Phase.READY_FOR_GPU, found.reason, found.message, said, warning=True, fields={"dispatch": None})


def _said(view: View, found: Refusal) -> conditions.Condition:
    return condition(view, "Accepted", False, found.reason, found.message)
