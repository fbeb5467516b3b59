"""The names that the archive sweeps are those that runs write."""

from __future__ import annotations

from controllers.archive import mongo
from controllers.memory import mongo as memory
from crds import leftovers, sandbox
from orchestrator_job import artifacts, checkpoints, fence, ledger, outcome
from orchestrator_job import memory as read
from orchestrator_job.delegation import journal
from orchestrator_job.delegation.tools import checkout, outside


def test_every_collection_of_a_run_is_swept_and_the_notices_and_effects() -> None:
    assert set(mongo.LEFTOVERS) == {
        checkpoints.CHECKPOINTS,
        checkpoints.WRITES,
        artifacts.COLLECTION,
        ledger.COLLECTION,
        fence.COLLECTION,
        outcome.RESULTS,
        read.COLLECTION,
        journal.COLLECTION,
        checkout.COLLECTION,
        outside.COLLECTION,
        sandbox.COLLECTION,
        leftovers.NOTICES,
        leftovers.EFFECTS,
    }
    assert {memory.MEMORY, memory.RESULTS, mongo.RESULTS} <= set(mongo.LEFTOVERS)


def test_the_history_itself_is_not() -> None:
    assert mongo.ARCHIVE not in mongo.LEFTOVERS
