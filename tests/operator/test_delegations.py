"""What runs delegated, on the operator's metrics: once each, whatever operator leads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.controllers.delegations.test_totals import ended
from tests.operator.conftest import Space
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]
COUNTED = "jervis_operator_delegations_total"


def leave(database: Any, release: str, *names: str) -> None:
    """As runs write them."""
    documents = [{"_id": f"u/{name}", "taskUid": "u", "release": release, **ended()} for name in names]
    database["delegation_metrics"].insert_many(documents)


def test_the_next_operator_goes_on_with_the_totals(space: Space, start: Start, database: Any) -> None:
    release = f"{space.name}/jervis-operator"
    leave(database, release, "r1.d1", "r1.d2", "r1.d3")
    leave(database, "elsewhere/jervis-operator", "r1.d4")
    with start(IDENTITY="operator-0") as operator:
        until(lambda: operator.metric(COUNTED) == 3, "the delegations are counted")
        assert operator.metric("jervis_operator_delegation_seconds_count") == 3
        operator.kill()
        leave(database, release, "r2.d1")
        with start(IDENTITY="operator-0") as successor:
            until(lambda: successor.metric(COUNTED) == 4, "the totals go on, with the one that ended meanwhile")
            assert successor.metric("jervis_operator_delegation_tokens_count") == 4
    assert database["delegation_metrics"].count_documents({"counted": True}) == 4
