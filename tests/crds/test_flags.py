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
        ("useDecisionAgent", "jervis.dev/use-decision-agent", "JERVIS_USE_DECISION_AGENT"),
    ]


def test_annotations_count_where_they_are_permitted() -> None:
    said = {Flag.DAG_EXECUTION.annotation: "true", Flag.DELEGATION_GRAPH.annotation: "false", "jervis.dev/title": "x"}
    found = flags.chosen(said, "team", "EmailProcessing", permitted=True)
    assert found == flags.Chosen({Flag.DELEGATION_GRAPH: False, Flag.DAG_EXECUTION: True})
    refused = flags.chosen(said, "team", "EmailProcessing", permitted=False)
    assert refused.values == {}
    assert [one.partition(" ")[0] for one in refused.ignored] == [
        "jervis.dev/use-delegation-graph",
        "jervis.dev/use-dag-execution",
    ]
    assert "taskFlags" in refused.ignored[0]


def test_what_is_neither_true_nor_false_is_named() -> None:
    found = flags.chosen({Flag.DAG_EXECUTION.annotation: "yes"}, "team", "EmailProcessing", permitted=True)
    assert found.values == {}
    assert found.ignored == ("jervis.dev/use-dag-execution is 'yes'; write true or false.",)


def test_the_decision_agent_answers_questions_of_users_alone() -> None:
    said = {Flag.DECISION_AGENT.annotation: "true"}
    found = flags.chosen(said, "team", "UserInputProcessing", permitted=True)
    assert found == flags.Chosen({Flag.DECISION_AGENT: True})
    refused = flags.chosen(said, "team", "EmailProcessing", permitted=True)
    assert refused == flags.Chosen(
        {},
        (
            "jervis.dev/use-decision-agent is for tasks whose spec.type is UserInputProcessing, and this one is"
            " EmailProcessing; leave it out, or create the task with that type.",
        ),
    )
