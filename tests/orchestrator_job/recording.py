"""Recording a thread as it stood when a process died, and putting it back: the corpus of old checkpoints.

A change of the state's meaning (or of LangGraph) must either read what is in `corpus/` or refuse it with a reason. To
keep the present form under a new name, with the data services up:

    JERVIS_RECORD=schema-2 pytest tests/orchestrator_job/run/test_corpus.py -k present
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bson import json_util

from tests.orchestrator_job import job

CORPUS = Path(__file__).parent / "corpus"
_LATE = datetime(2999, 1, 1, tzinfo=UTC)
_COLLECTIONS = (
    "task_memory",
    "orchestrator_fences",
    "orchestrator_artifacts",
    "orchestrator_checkpoints",
    "orchestrator_checkpoint_writes",
    "orchestrator_ledger",
    "orchestrator_journal",
    "orchestrator_context",
)


def save(store: job.Store, path: Path) -> None:
    """Write everything that the store holds of its task. None of it names a module of the program."""
    documents = {collection: store.all(collection) for collection in _COLLECTIONS}
    for entry in documents["orchestrator_context"]:
        # A recorded thread is read for years.
        entry["expiresAt"] = _LATE
    path.write_text(json_util.dumps(documents, indent=1) + "\n")
    assert b"orchestrator_job" not in contents(path)


def load(store: job.Store, path: Path) -> str:
    """Make the store hold the recorded thread and nothing else of these collections; returns its task uid."""
    documents: dict[str, list[dict[str, Any]]] = json_util.loads(path.read_text())
    for collection, entries in documents.items():
        store.database[collection].delete_many({})
        if entries:
            store.database[collection].insert_many(entries)
    uid: str = documents["task_memory"][0]["_id"]
    return uid


def contents(path: Path) -> bytes:
    """All that a recorded thread has, with the bytes of its checkpoints as they are."""
    return b"\n".join(_values(json_util.loads(path.read_text())))


def _values(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key.encode()
            yield from _values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner)
    else:
        yield value if isinstance(value, bytes) else str(value).encode()


def path(name: str, folder: Path) -> Path:
    """Where the present form is written: into the corpus under JERVIS_RECORD, if that begins as `name` does; else into
    `folder`."""
    wanted = os.environ.get("JERVIS_RECORD", "")
    kept = wanted.partition("-")[0] == name.partition("-")[0]
    return CORPUS / f"{wanted}.json" if kept else folder / f"{name}.json"
