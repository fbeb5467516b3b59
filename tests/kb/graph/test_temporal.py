"""A newer fact retires an older one of the same subject and the same functional relation, and nothing else."""

from __future__ import annotations

import pytest

from kb.graph import model, temporal


def said(source: str, kind: str, target: str, observed: int | None) -> model.Statement:
    document = model.Document("d", "u:1", "email", "", observed)
    return model.Statement("c", document, source, model.Edge(source, kind, target), "s", "sentence")


def ended(*proofs: model.Statement, as_of: int | None = None) -> dict[str, int]:
    return {edge.target: end.at_ms for edge, end in temporal.retired(proofs, as_of_ms=as_of).items()}


ASSIGNED = said("j:1", "assigned_to", "p:a", 10)


def status(name: str, observed: int | None) -> model.Statement:
    return said("j:1", "status", f"s:{name}", observed)


@pytest.mark.parametrize(
    ("proofs", "ends"),
    [
        pytest.param([ASSIGNED, said("j:1", "assigned_to", "p:b", 20)], {"p:a": 20}, id="a newer assignee"),
        pytest.param([ASSIGNED, said("j:2", "assigned_to", "p:b", 20)], {}, id="another subject"),
        pytest.param([ASSIGNED, said("j:1", "status", "s:open", 20)], {}, id="another relation"),
        pytest.param([said("p:a", "knows", "p:b", 10), said("p:a", "knows", "p:c", 20)], {}, id="not functional"),
        pytest.param([status("open", 1), status("done", 2), status("open", 3)], {"s:done": 3}, id="said again"),
        pytest.param([status("a", None), status("b", 2)], {}, id="without a time"),
        pytest.param([status("a", 2), status("b", 2)], {}, id="at one time"),
    ],
)
def test_what_retires_what(proofs: list[model.Statement], ends: dict[str, int]) -> None:
    assert ended(*proofs) == ends


def test_it_ends_with_the_first_that_follows() -> None:
    proofs = [status("open", 1), status("doing", 2), status("done", 3)]
    assert ended(*proofs) == {"s:open": 2, "s:doing": 3}
    successors = {edge.target: end.by.target for edge, end in temporal.retired(proofs).items()}
    assert successors == {"s:open": "s:doing", "s:doing": "s:done"}


def test_the_past_does_not_know_what_came_later() -> None:
    proofs = [status("open", 1), status("done", 5)]
    assert ended(*proofs, as_of=4) == {}
    assert ended(*proofs, as_of=5) == {"s:open": 5}
