"""What is kept of new tasks until they are read: one version each, bounded, gone once it is of no use."""

from __future__ import annotations

from typing import Any

from controllers.pendingtask.task_index import Contents
from crds import pendingtask


def raw(uid: str = "u", version: str = "7", phase: str | None = None, content: str = "x") -> dict[str, Any]:
    meta = {"name": "t", "namespace": "ns", "uid": uid, "resourceVersion": version, "managedFields": [{}]}
    spec = {"type": "EmailProcessing", "clientId": "acme", "content": content}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase} if phase else {}}


def test_a_new_task_is_kept_whole_until_it_is_taken() -> None:
    kept = Contents()
    kept.keep(raw())
    found = kept.pop("u", "7")
    assert found is not None
    assert pendingtask.PendingTask.model_validate(found).spec.content == "x"
    assert "managedFields" not in found["metadata"]
    assert kept.pop("u", "7") is None
    assert len(kept) == 0


def test_another_version_is_not_given_out() -> None:
    kept = Contents()
    kept.keep(raw(version="7"))
    assert kept.pop("u", "8") is None
    assert len(kept) == 0
    kept.keep(raw(version="7"))
    kept.keep(raw(version="8", content="new"))
    found = kept.pop("u", "8")
    assert found is not None
    assert found["spec"]["content"] == "new"


def test_what_has_been_read_is_not_kept() -> None:
    kept = Contents()
    kept.keep(raw())
    kept.keep(raw(version="8", phase="ReadyForGpu"))
    assert len(kept) == 0
    kept.keep(raw(phase="ReadyForQualification"))
    kept.drop("u")
    assert len(kept) == 0


def test_it_is_bounded_and_the_first_ones_stay() -> None:
    kept = Contents(capacity=10_000)
    for number in range(20):
        kept.keep(raw(f"u{number}", content="x" * 1000))
    held = len(kept)
    assert 5 <= held < 10
    assert kept.pop("u19", "7") is None
    assert all(kept.pop(f"u{number}", "7") for number in range(held))
    kept.keep(raw("late", content="x" * 1000))
    assert kept.pop("late", "7") is not None
