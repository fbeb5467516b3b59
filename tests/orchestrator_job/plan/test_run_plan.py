"""The plan as a value: what a model may say, what is dropped, how it is amended, and the prompt that asks for it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rules import enforce_lines
from crds import scope
from kb import api
from orchestrator_job.answer import answer_prompt, evidence_pack, model_answer
from orchestrator_job.model import rules_context
from orchestrator_job.plan import run_plan, run_plan_nodes
from router.client import reading
from tests.orchestrator_job import knowledge


def parsed(
    text: str, held: enforce_lines.Provisions | None = None
) -> tuple[tuple[run_plan.Step, ...], tuple[str, ...]]:
    """The steps in a model's text."""
    return run_plan.judged(reading.read(text, run_plan.Draft).value, held or enforce_lines.Provisions())


NOW = datetime(2026, 3, 1, tzinfo=UTC)
_PIECES = [*"<>/[]:& \t\nabv1", "plan", "project", "step", "evidence", "</", "question", "prompt", "PROMPT", '"']
_WEIRD = st.lists(st.sampled_from(_PIECES), max_size=30).map("".join)


def step(description: str = "Find the date", *tools: str, done: str = "The date is known.") -> dict[str, Any]:
    return {"description": description, "tools": list(tools), "successCriteria": done}


def text(*steps: dict[str, Any]) -> str:
    return json.dumps({"steps": list(steps)})


def ruled(*contents: str) -> rules_context.Standing:
    rules = [
        api.Rule(
            scope=scope.Scope(client_id="acme"),
            rule_key=f"r{number}",
            rule_type=api.RuleType.SECURITY,
            rule_content=content,
            description="",
            version=1,
            created_at=datetime(2026, 3, 1, tzinfo=UTC),
            created_by="jana",
        )
        for number, content in enumerate(contents)
    ]
    return rules_context.make(rules, api.UserContext(markdown="", categories={}), 24_000)


def a_plan(*tools: str, round_number: int = 1) -> run_plan.Plan:
    steps, notes = parsed(text(step("one", *tools), step("two", *tools), step("three", "answer")))
    return run_plan.made(steps, notes, None, round_number, "light", "")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("no json", "no JSON object"),
        (text(step(), step()), "steps: .*at least 3"),
        (text(step(), step(" "), step()), "steps"),
        (text(step(done=""), step(), step()), "steps"),
        (json.dumps({"steps": [{"description": "a", "tools": []}] * 3}), "successCriteria: Field required"),
    ],
)
def test_answers_that_are_no_plan(said: str, problem: str) -> None:
    with pytest.raises(reading.Unusable, match=problem):
        parsed(said)


def test_of_too_many_steps_the_first_are_used_and_long_ones_are_cut() -> None:
    steps, _ = parsed(text(*[step("x" * 301)] * 8))
    assert [len(each.description) for each in steps] == [300] * 7


def test_unknown_tools_are_dropped_and_said() -> None:
    steps, notes = parsed(
        text(step("a", "search", "sendMail", "search"), step("b", "httpGet"), step("c", "answer", "ask"))
    )
    assert [one.tools for one in steps] == [("search",), (), ("answer", "ask")]
    assert notes == (
        "Step 1: the tool 'sendMail' was dropped, no run has it.",
        "Step 2: the tool 'httpGet' was dropped, no run has it.",
    )


def test_what_was_dropped_is_said_in_few_words() -> None:
    _, notes = parsed(text(*[step("a", *(f"{name}{'x' * 3000}" for name in range(10))) for _ in range(7)]))
    assert 10 < len(notes) <= 20
    assert max(map(len, notes)) < 150


def test_a_rule_bounds_the_tools() -> None:
    held = enforce_lines.Provisions.together(["enforce: never-use-tool Search"])
    assert run_plan.allowed(held) == ("answer", "ask")
    assert run_plan.allowed(enforce_lines.Provisions()) == ("search", "answer", "ask")
    offered = run_plan.wire(run_plan.allowed(held))["properties"]["steps"]["items"]["properties"]["tools"]["items"]
    assert offered == {"type": "string", "enum": ["answer", "ask"]}
    steps, notes = parsed(text(step("a", "search"), step(), step()), held)
    assert (steps[0].tools, notes) == ((), ("Step 1: the tool 'search' was dropped, a rule forbids it.",))
    # A plan that was made before the rule came is not followed past it.
    assert run_plan.searches(a_plan("search"), held) == {}


def test_a_plan_says_nothing_that_a_rule_forbids_to_say() -> None:
    held = enforce_lines.Provisions.together(["enforce: never-say account number\nenforce: always-cite"])
    with pytest.raises(reading.Unusable, match="a rule forbids to say 'account number'"):
        parsed(text(step("Find the Account  Number"), step(), step()), held)
    assert parsed(text(step(), step(), step()), held)[1] == ()


def test_a_rule_can_forbid_search_and_ask_alone() -> None:
    for words in ("answer", "sendMail", "search ask"):
        with pytest.raises(ValueError, match="no tool that a rule can forbid; give one of ask, search"):
            enforce_lines.of(f"enforce: never-use-tool {words}")
    with pytest.raises(ValueError, match="no provision"):
        enforce_lines.of("enforce: never-use-tool")


def test_steps_that_find_nothing_amend_the_plan() -> None:
    made = a_plan("search")
    assert run_plan.searches(made) == {1: "one", 2: "two"}
    assert run_plan.amended(made, {1: 3, 2: 1}) == made
    amended = run_plan.amended(made, {1: 0, 2: 2})
    assert (amended.version, amended.steps[0].tools, amended.steps[1:]) == (2, ("ask",), made.steps[1:])
    assert amended.amendments == (
        run_plan.Amendment(
            version=2,
            reason="Step 1 found nothing in the knowledge base: what is missing is asked of the user.",
        ),
    )
    silent = enforce_lines.Provisions.together(["enforce: never-use-tool ask"])
    both = run_plan.amended(made, {1: 0, 2: 0}, silent)
    assert [one.tools for one in both.steps] == [(), (), ("answer",)]
    assert both.amendments[0].reason.startswith("Steps 1, 2 found nothing")


def test_versions_go_on_over_rounds_and_failures() -> None:
    first = a_plan("search")
    assert (first.version, first.amendments) == (1, ())
    second = run_plan.made(first.steps, (), first, 2, "light", "The user added.")
    assert (second.version, second.amendments) == (2, (run_plan.Amendment(version=2, reason="The user added."),))
    none = run_plan.failed("It took too long.", second, 3, "light")
    assert (none.version, none.steps, none.amendments, none.round) == (2, (), second.amendments, 3)
    assert run_plan.made(first.steps, (), none, 4, "light", "Again.").version == 3
    never = run_plan.failed("no model", None, 1, "light")
    assert (never.version, run_plan.made(first.steps, (), never, 2, "light", "x").version) == (0, 1)
    assert [run_plan.outcome(one) for one in (first, second, none, never, None)] == [
        "Made", "Amended", "Failed", "Failed", None,
    ]  # fmt: skip
    for one in (first, second, none, never):
        assert run_plan.load(run_plan.dump(one)) == one
        assert run_plan.of_round(run_plan.dump(one), one.round) == one
        assert run_plan.of_round(run_plan.dump(one), one.round + 1) is None
    assert run_plan.load(None) is None


@given(st.lists(st.dictionaries(st.integers(1, 3), st.integers(0, 1)), max_size=60))
def test_a_plan_stays_small(findings: list[dict[int, int]]) -> None:
    made = a_plan("search")
    for found in findings:
        made = run_plan.amended(made, found)
    assert len(made.amendments) <= 20
    assert made.version == 1 + sum(0 in found.values() for found in findings)


@given(_WEIRD, _WEIRD, _WEIRD, _WEIRD)
def test_no_text_leaves_its_block(content: str, source: str, question: str, project: str) -> None:
    item = evidence_pack.Item(id=1, source=source, content=content, origin="RAG")
    earlier = a_plan().model_copy(
        update={"steps": tuple(one.model_copy(update={"description": content}) for one in a_plan().steps)}
    )
    context = run_plan_nodes.Context(ruled(), (item,), project)
    for user in (
        run_plan_nodes.messages(question, context, NOW, ("search",), earlier)[1]["content"],
        answer_prompt.messages(question, [item], NOW, ruled(), run_plan.block(earlier))[1]["content"],
    ):
        squeezed = "".join(user.lower().split())
        for block, count in (("evidence", 1), ("question", 1), ("plan", 1), ("step", 3)):
            assert squeezed.count(f"<{block}") == squeezed.count(f"</{block}") == count
        assert squeezed.count("<project") == squeezed.count("</project") <= 1
        assert "[prompt:" not in squeezed


@pytest.mark.parametrize("num_ctx", [2400, 4096, 8192])
def test_the_prompt_keeps_within_the_window(num_ctx: int) -> None:
    items = tuple(
        evidence_pack.Item(id=n, source=f"mail::{n}", content="word " * 3000, origin="RAG") for n in range(1, 12)
    )
    context = run_plan_nodes.Context(ruled("Never pay."), items, "a knows b\n" * 500)
    system, user = run_plan_nodes.messages("why?", context, NOW, ("search", "ask"), None, num_ctx)
    assert system["content"].splitlines()[0] == "[prompt:job.plan/v1]"
    assert '<rule key="r0" type="SECURITY">Never pay.</rule>' in system["content"]
    assert user["content"].startswith("Today: 2026-03-01, Sunday, 00:00 (UTC+00:00)\nTools: search, ask\n<project>")
    assert user["content"].endswith("</evidence>\n<question>why?</question>")
    assert len(system["content"]) + len(user["content"]) <= (num_ctx - 1536) * 3
    assert user["content"].count("<evidence") >= (2 if num_ctx > 2400 else 1)


def test_rules_are_never_cut_for_a_plan() -> None:
    with pytest.raises(reading.Unusable, match="no room for evidence"):
        run_plan_nodes.messages("why?", run_plan_nodes.Context(ruled("x" * 9000), ()), NOW, ("answer",))


def test_what_the_graph_says_about_the_project() -> None:
    found = api.TraverseReply(
        nodes=[api.Visit(key=key, hops=1) for key in ("jira::SHOP-1", "person::ann", "product::till")],
        edges=[api.Related(source="person::ann", type="owns", target="product::till")] * 2,
    )
    assert run_plan_nodes.project_info(found) == "person::ann owns product::till\njira::SHOP-1"


def test_a_pack_grows_by_what_is_new_and_keeps_its_numbers() -> None:
    first = evidence_pack.build([], [knowledge.hit("one"), knowledge.hit("two")], None, 1000)
    hidden = enforce_lines.Provisions.together(["enforce: never-use-source hidden::*"])
    found = [
        knowledge.hit("two"),
        knowledge.hit("three"),
        knowledge.hit("three"),
        knowledge.hit("no", source_urn="hidden::1"),
        knowledge.hit("f" * 900),
        knowledge.hit("x" * 200),
    ]
    longer = evidence_pack.extend(first, found, None, 1000, hidden)
    assert longer[:2] == first
    assert [(item.id, item.content[:5]) for item in longer] == [
        (1, "one"), (2, "two"), (3, "three"), (4, "fffff"), (5, "xxxxx"),
    ]  # fmt: skip
    assert sum(len(item.content) for item in longer) == 1000


def test_an_answer_asks_nothing_where_a_rule_forbids_it() -> None:
    asks = json.dumps({"answer": "", "citations": [], "confidence": 0, "needsInput": True, "questions": ["Which?"]})
    held = enforce_lines.Provisions.together(["enforce: never-use-tool ask"])
    draft = reading.read(asks, model_answer.Draft).value
    assert model_answer.judged(draft, []).needs_input
    with pytest.raises(reading.Unusable, match="a rule forbids to ask"):
        model_answer.judged(draft, [], held)
