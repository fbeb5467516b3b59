"""What a prompt holds within its window."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orchestrator_job.answer import evidence_pack
from orchestrator_job.model import excerpt, prompt_budget, prompts, rules_context
from orchestrator_job.plan import run_plan_nodes

LETTERS = ["word ", "žluťoučký ", "漢字漢"]


@pytest.mark.parametrize("word", LETTERS)
@pytest.mark.parametrize("count", [1, 400, 4000])
@pytest.mark.parametrize("token_bytes", [prompt_budget.TOKEN_BYTES, prompt_budget.CAREFUL_TOKEN_BYTES])
def test_parts_question_and_what_is_left_are_within_the_window(word: str, count: int, token_bytes: int) -> None:
    parts = ("system " * 40, "Today: 2026-03-01", "")
    asked = excerpt.Parts(word * count, (word * count,))
    fitted = prompt_budget.fit(asked, parts, 2000, token_bytes=token_bytes)
    room = 2000 * token_bytes - excerpt.size("\n".join([*parts, "<question></question>", ""]))
    assert excerpt.size(fitted.question) + fitted.left == room
    assert fitted.left >= room // 4, "a quarter is for evidence"
    assert (fitted.question == asked.text) == (excerpt.size(asked.text) <= excerpt.beside(room))


def test_a_question_has_its_least_though_nothing_is_left() -> None:
    fitted = prompt_budget.fit("word " * 400, ("x" * 3900,), 1000, least=600)
    assert 500 < excerpt.size(fitted.question) <= 600
    assert fitted.left < 0


@pytest.mark.parametrize("word", LETTERS)
def test_a_window_is_counted_in_bytes_whatever_the_script(word: str) -> None:
    items = [evidence_pack.Item(id=n, source=f"s{n}", content=word * 2000, origin="RAG") for n in range(1, 9)]
    context = run_plan_nodes.Context(rules_context.Standing(), tuple(items), word * 500)
    talk = run_plan_nodes.messages(word * 900, context, datetime(2026, 3, 1, tzinfo=UTC), ("search",), None, 4096)
    assert sum(excerpt.size(one["content"]) for one in talk) <= (4096 - 1536) * 3
    assert prompt_budget.tokens(talk) <= 4096 - 1536
    assert talk[1]["content"].count("<evidence ") >= 2


def test_the_first_entries_that_fit_are_whole() -> None:
    assert prompt_budget.leading(["ab", "č", "cd"], 6) == ["ab", "č"]
    assert prompt_budget.leading(["ab", "cd"], 7, 2) == ["ab"]
    assert prompt_budget.leading(["abcd", "e"], 3) == []


def test_a_prompt_of_a_file_begins_with_its_tag() -> None:
    tag, first = prompts.tagged("plan_steps.v1").splitlines()[:2]
    assert tag == "[prompt:job.plan_steps/v1]"
    assert prompts.text("plan_steps.v1").startswith(first)
