"""Moving a project's data into its group."""

from __future__ import annotations

from contracts.api import message
from crds import scope


class Regroup(message.Request):
    """`scope.projectId` belongs to `scope.groupId` from now on; an empty group takes it out of any."""

    scope: scope.Scope


class Regrouped(message.Reply):
    """How many documents were moved, and how many chunks and sentences with them."""

    documents: int
    vectors: int
