"""The tenant's namespace is deleted under load: the short form of `make test-faults`."""

from __future__ import annotations

import pytest

from tests.faults import tenants
from tests.faults.campaigns import Begin

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
SEED = 20270301


async def test_a_deleted_namespace_takes_its_own_tasks_and_runs_alone(begin: Begin) -> None:
    """No watch reports the deletions; the long form has the other way as well."""
    async with begin() as on:
        outcome = await tenants.deleted_namespace(on, SEED, tasks=24, unreported=True, tidy=False)
    assert outcome.sentences() == []
    assert outcome.details["tasksDeleted"] >= 10
