"""The agents are complete, different from each other, and validated before a run starts."""

from __future__ import annotations

import itertools
import re
from importlib import resources

import pytest

from contracts.rules import enforce_lines
from crds.priority import Priority
from orchestrator_job.agents import registry
from orchestrator_job.store import delegation_models
from tests.conftest import ROOT

LOADED = registry.Registry.load()
EVERY = (*LOADED.specialists, LOADED.legacy)
TIERS = {
    1: {"Coding", "Git", "CodeReview", "Test", "Research"},
    2: {"IssueTracker", "Wiki", "Documentation", "DevOps", "ProjectManagement", "Security"},
    3: {"Communication", "Email", "Calendar", "Administrative"},
    4: {"Legal", "Financial", "Personal", "Learning"},
}


def table() -> str:
    return (resources.files("orchestrator_job.agents") / "agents.toml").read_text(encoding="utf-8")


def prompts() -> dict[str, str]:
    return dict.fromkeys((*(one.name for one in EVERY), "all"), "You do it.")


def test_nineteen_specialists_in_four_tiers() -> None:
    """Seed 000 "Agent Tiers"."""
    assert {tier: {one.name for one in LOADED.specialists if one.tier == tier} for tier in TIERS} == TIERS
    assert len(LOADED.specialists) == registry.SPECIALISTS
    assert LOADED.legacy.name == registry.LEGACY


def test_only_the_coding_agent_asks_at_priority_1() -> None:
    assert {one.name for one in EVERY if one.priority is Priority.P1} == {"Coding"}
    assert {one.priority for one in EVERY} == {Priority.P0, Priority.P1}


def test_every_tool_has_an_agent_and_every_domain_a_specialist() -> None:
    used = {name for one in LOADED.specialists for name in one.capability.tool_names}
    assert used == registry.KNOWN_TOOLS
    assert set(LOADED.legacy.capability.tool_names) == registry.KNOWN_TOOLS - {registry.DELEGATE}
    assert {domain for one in LOADED.specialists for domain in one.capability.domains} == set(
        delegation_models.DomainType
    )


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_a_prompt_is_of_its_agent(one: registry.Agent) -> None:
    lines = one.prompt.split("\n")
    assert lines[0] == f"[prompt:job.agent.{one.name}/v1]"
    assert "RESULT: " in one.prompt
    assert "are data that others wrote" in one.prompt
    assert "do not store again what the team knows already" in one.prompt
    assert max(map(len, lines)) <= 120
    assert len(one.prompt) < 3000, "two prompts and the task fit into a window of 4096 tokens"
    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", one.prompt)) & registry.KNOWN_TOOLS
    assert named <= set(one.capability.tool_names), "it names a tool that it does not have"
    missing = set(one.capability.tool_names) - named - {"related", "calculate", registry.DELEGATE}
    assert not missing or one is LOADED.legacy, f"it does not say what {missing} are for"


def test_who_delegates_is_named_to_and_can() -> None:
    names = {one.name for one in EVERY}
    for one in EVERY:
        can = registry.DELEGATE in one.capability.tool_names
        assert (one.capability.can_sub_delegate, one.capability.max_depth < delegation_models.MAX_DEPTH) == (can, can)
        assert ("Delegate " in one.prompt) is can, one.name
        for target in re.findall(r"\bto ([A-Z][A-Za-z]+)\b", one.prompt):
            assert target in names | {"Cc"}, f"{one.name} delegates to {target}"


def test_prompts_differ_in_substance() -> None:
    """No two have more than a few lines in common beside those of all agents."""
    common = set((resources.files("orchestrator_job.model.prompts") / "agents" / "all.v1.txt").read_text().split("\n"))
    own = {one.name: set(one.prompt.split("\n")) - common for one in EVERY}
    for left, right in itertools.combinations(own.values(), 2):
        assert len(left & right) <= 1


def test_agents_are_found_as_procedures_name_them() -> None:
    for name in ("CodeReview", "CodeReviewAgent", "code_review", "Code Review Agent", " codereview "):
        assert LOADED.agent(name).name == "CodeReview"
    assert LOADED.agent("LegacyAgent") is LOADED.agent("legacy") is LOADED.legacy
    for name in ("", "Agent", "Sales"):
        with pytest.raises(KeyError):
            LOADED.agent(name)


def test_the_page_says_the_same() -> None:
    lines = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    said = {row[1]: row for row in rows if len(row) == 5 and row[1] in {one.name for one in EVERY}}
    assert said.keys() == {one.name for one in EVERY}
    for one in LOADED.specialists:
        tools = ", ".join(f"`{name}`" for name in one.capability.tool_names)
        assert said[one.name] == [str(one.tier), one.name, one.capability.description, tools, str(one.model_calls)]


def test_rules_take_tools_away() -> None:
    held = enforce_lines.Provisions.together(["enforce: never-use-tool search"])
    seen = LOADED.visible(held)
    assert not {"search_knowledge", "read_source", "code_where"} & set(seen.legacy.capability.tool_names)
    assert "run_command" in seen.agent("Coding").capability.tool_names
    assert seen.agent("Legal").capability.tool_names == ("save_draft",)
    assert LOADED.visible(enforce_lines.Provisions()) == LOADED


def test_an_agent_without_tools_is_not_seen() -> None:
    text = table().replace(
        'tools = ["search_knowledge", "read_source", "related", "save_draft"]', 'tools = ["related"]'
    )
    found = registry.parse(text, prompts())
    assert found.agent("Legal").capability.tool_names == ("related",)
    seen = found.visible(enforce_lines.Provisions.together(["enforce: never-use-tool search"]))
    assert "Legal" not in {one.name for one in seen.specialists}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"fetch_page"', '"fetch_pages"', "agents.toml: Research: Value error, tools: unknown ['fetch_pages']"),
        ('"fetch_page"', '"related"', "agents.toml: Research: Value error, tools: one is named twice"),
        ("tier = 1", "tier = 5", "agents.toml: Research.tier: "),
        ('"RESEARCH", ', '"SALES", ', "agents.toml: Research.domains.0: "),
        ("model_calls = 12", "calls = 12", "agents.toml: Research.model_calls: Field required"),
        ("max_depth = 3", "max_depth = 4", "agents.toml: Coding: Value error, tools: an agent that delegates"),
        ("[Research]", "[Sales]", "There is no prompt Sales.v1.txt."),
        ("[Research]", "[Research", "agents.toml cannot be read: "),
    ],
)
def test_wrong_data_is_refused(old: str, new: str, problem: str) -> None:
    with pytest.raises(registry.Unusable) as caught:
        registry.parse(table().replace(old, new, 1), prompts())
    assert caught.value.message.startswith(problem)


def test_prompts_and_agents_belong_together() -> None:
    with pytest.raises(registry.Unusable, match="prompts of no agent: Sales"):
        registry.parse(table(), {**prompts(), "Sales": "You sell."})
    for name in ("Git", "all"):
        with pytest.raises(registry.Unusable, match=rf"no prompt {name}\.v1\.txt"):
            registry.parse(table(), {**prompts(), name: " "})
    text, left = table(), {name: text for name, text in prompts().items() if name != "Git"}
    gone = text[: text.index("[Git]")] + text[text.index("[CodeReview]") :]
    with pytest.raises(registry.Unusable, match="has 18 specialists"):
        registry.parse(gone, left)
