"""Feature flags: their names in three places, and what annotations of a task may choose."""

from __future__ import annotations

from crds import flags
from crds.flags import Flag


def test_names() -> None:
    assert [(one.value, one.annotation, one.variable) for one in Flag] == [
        ("useDelegationGraph", "jervis.dev/use-delegation-graph", "JERVIS_USE_DELEGATION_GRAPH"),
        ("useSpecialistAgents", "jervis.dev/use-specialist-agents", "JERVIS_USE_SPECIALIST_AGENTS"),
        ("useDagExecution", "jervis.dev/use-dag-execution", "JERVIS_USE_DAG_EXECUTION"),
        ("useProceduralMemory", "jervis.dev/use-procedural-memory", "JERVIS_USE_PROCEDURAL_MEMORY"),
    ]


def test_annotations_count_where_they_are_permitted() -> None:
    said = {Flag.DAG_EXECUTION.annotation: "true", Flag.DELEGATION_GRAPH.annotation: "false", "jervis.dev/title": "x"}
    found = flags.chosen(said, "team", permitted=True)
    assert found == flags.Chosen({Flag.DELEGATION_GRAPH: False, Flag.DAG_EXECUTION: True})
    refused = flags.chosen(said, "team", permitted=False)
    assert refused.values == {}
    assert [one.partition(" ")[0] for one in refused.ignored] == [
        "jervis.dev/use-delegation-graph",
        "jervis.dev/use-dag-execution",
    ]
    assert "taskFlags" in refused.ignored[0]


def test_what_is_neither_true_nor_false_is_named() -> None:
    found = flags.chosen({Flag.DAG_EXECUTION.annotation: "yes"}, "team", permitted=True)
    assert found.values == {}
    assert found.ignored == ("jervis.dev/use-dag-execution is 'yes'; write true or false.",)
