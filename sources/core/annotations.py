"""What people ask of a Connection by annotations: each wish is done once, however often it is repeated or interrupted.

- retry: failed items whose content is stored become New again; a clone that failed is made at once
- resync: the source is read from its beginning; items that are known make no second task
"""

from __future__ import annotations

from dataclasses import replace

from sources.core import assignments, items


async def begun(claim: assignments.Claim, assigned: assignments.Assignments, stored: items.Items) -> assignments.Claim:
    """The claim once its new wishes are begun. A resync has ended when the source was read to its end.

    Raises `Lost`, `Unavailable`.
    """
    wishes, state = claim.wishes or {}, claim.state
    retry, resync = wishes.get("retry", ""), wishes.get("resync", "")
    if retry not in ("", state.retried):
        await stored.again(claim.uid)
        # A clone that failed begins anew with its tries.
        failed = state.workspace is not None and state.workspace.failures
        claim = replace(claim, state=replace(state, retried=retry, workspace=None if failed else state.workspace))
    if resync not in ("", claim.rewound):
        # In this order: a kill between the two repeats both.
        await stored.forget_unread(claim.uid)
        await assigned.rewind(claim, resync)
        claim = replace(claim, cursor=assignments.beginning(claim.cursor), rewound=resync)
    return claim
