"""A project's group: real apiserver, real operator process, a knowledge base at wire level."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]


def test_the_documents_of_a_project_follow_its_newest_task_and_connection(
    space: Space, start: Start, knowledge: Knowledge
) -> None:
    space.submit("old", "INFO", projectId="shop", groupId="retail")
    space.submit("none", "INFO", projectId="till")
    with start() as operator:
        until(lambda: knowledge.groups == {"shop": "retail"}, "the project is in the group of its task")
        space.submit("new", "INFO", projectId="shop", groupId="wholesale")
        until(lambda: knowledge.groups["shop"] == "wholesale", "it has followed the newer task")
        until(lambda: space.phase("new") == "Done", "the task is read")
        source = {"type": "Git", "clientId": "acme", "url": "https://git.example.com/till.git"}
        space.create("connections", "Connection", "code", {**source, "projectId": "till", "groupId": "retail"})
        until(lambda: knowledge.groups.get("till") == "retail", "a Connection names a group as well")
        until(lambda: operator.metric("jervis_operator_regroups_total") >= 3, "each move is counted")
    assert knowledge.groups == {"shop": "wholesale", "till": "retail"}
