"""A newer fact retires an older one of the same subject and the same functional relation, and nothing else."""

from __future__ import annotations

from kb.graph import model, temporal


def said(source: str, kind: str, target: str, observed: int | None) -> model.Said:
    document = model.Document("d", "u:1", "email", "", observed)
    return model.Said("c", document, source, model.Edge(source, kind, target), "s", "sentence")


def ended(*proofs: model.Said, as_of: int | None = None) -> dict[str, int]:
    return {edge.target: end.at_ms for edge, end in temporal.retired(proofs, as_of_ms=as_of).items()}


def test_a_newer_assignee_retires_the_older_one() -> None:
    assert ended(said("j:1", "assigned_to", "p:a", 10), said("j:1", "assigned_to", "p:b", 20)) == {"p:a": 20}


def test_another_subject_or_relation_retires_nothing() -> None:
    assert ended(said("j:1", "assigned_to", "p:a", 10), said("j:2", "assigned_to", "p:b", 20)) == {}
    assert ended(said("j:1", "assigned_to", "p:a", 10), said("j:1", "status", "s:open", 20)) == {}
    assert ended(said("p:a", "knows", "p:b", 10), said("p:a", "knows", "p:c", 20)) == {}


def test_what_is_said_again_holds_again() -> None:
    proofs = [said("j:1", "status", f"s:{name}", at) for name, at in [("open", 1), ("done", 2), ("open", 3)]]
    assert ended(*proofs) == {"s:done": 3}


def test_it_ends_with_the_first_that_follows() -> None:
    proofs = [said("j:1", "status", f"s:{name}", at) for name, at in [("open", 1), ("doing", 2), ("done", 3)]]
    assert ended(*proofs) == {"s:open": 2, "s:doing": 3}
    successors = {edge.target: end.by.target for edge, end in temporal.retired(proofs).items()}
    assert successors == {"s:open": "s:doing", "s:doing": "s:done"}


def test_what_has_no_time_neither_retires_nor_is_retired() -> None:
    assert ended(said("j:1", "status", "s:a", None), said("j:1", "status", "s:b", 2)) == {}
    assert ended(said("j:1", "status", "s:a", 2), said("j:1", "status", "s:b", 2)) == {}


def test_the_past_does_not_know_what_came_later() -> None:
    proofs = [said("j:1", "status", "s:open", 1), said("j:1", "status", "s:done", 5)]
    assert ended(*proofs, as_of=4) == {}
    assert ended(*proofs, as_of=5) == {"s:open": 5}
