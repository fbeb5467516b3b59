"""`python -m orchestrator_job.trials`: tasks of the runs' models, for `kubectl jervis models --check`.

Answers from evidence with their citations, a call of a tool, and a plan: with the prompts, shapes and checks of a run.
The texts are made up.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic import ValidationError

from contracts.rules import enforce_lines
from orchestrator_job.answer import answer_prompt, evidence_pack, model_answer
from orchestrator_job.effects.tools import knowledge
from orchestrator_job.model import rules_context
from orchestrator_job.plan import run_plan, run_plan_nodes
from router.client import calls, schema, trials

_NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
_CANTEEN = "The canteen is closed on Friday."
# Question, passage that answers it, and what an answer has to have.
_ANSWERS = {
    "en": ("When does the registry's certificate expire?", "The registry's certificate expires on 20 March.", "20"),
    "de": ("Wann läuft das Zertifikat der Registry ab?", "Das Zertifikat der Registry läuft am 20. März ab.", "20"),
    "cs": ("Kdy vyprší certifikát registru?", "Certifikát registru vyprší 20. března.", "20"),
}  # fmt: skip


def every() -> Iterator[trials.Trial]:
    """All tasks."""
    for language, (question, passage, wanted) in _ANSWERS.items():
        yield _answer(language, question, passage, wanted)
    yield _call()
    yield _plan()


def _answer(language: str, question: str, passage: str, wanted: str) -> trials.Trial:
    items = [
        evidence_pack.Item(id=1, source="notes::1", content=_CANTEEN, origin="RAG"),
        evidence_pack.Item(id=2, source="notes::2", content=passage, origin="RAG"),
    ]
    ids = [item.id for item in items]

    def wrong(draft: model_answer.Draft) -> str:
        given = model_answer.judged(draft, ids)
        if given.needs_input:
            return "it asks back, although the evidence answers"
        if given.citations != [2]:
            return f"it cites {given.citations}, not [2]"
        return "" if wanted in given.answer else f"its answer has no {wanted}: {given.answer[:200]}"

    messages = answer_prompt.messages(question, items, _NOW)
    wire = model_answer.wire(ids)
    choices = {"citations": ids}
    return trials.Trial(
        "orchestrator", "an answer with citations", language, messages, wrong, model_answer.Draft, wire, choices
    )


def _call() -> trials.Trial:
    tool = knowledge.Search
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": schema.parameters(tool.arguments),
    }

    def wrong(reply: calls.Reply) -> str:
        if [call.name for call in reply.calls] != [tool.name]:
            return f"it called {[call.name for call in reply.calls]}"
        try:
            tool.arguments.model_validate(reply.calls[0].arguments)
        except ValidationError as error:
            return f"its arguments do not fit: {error.error_count()} problems"
        return ""

    messages = [
        {"role": "system", "content": "You find things out with tools. Call the tool that helps, then report."},
        {"role": "user", "content": "Find out in the knowledge base who owns the billing service."},
    ]
    offered = [{"type": "function", "function": function}]
    return trials.Trial("orchestrator", "a call of a tool", "en", messages, wrong, tools=offered)


def _plan() -> trials.Trial:
    items = (evidence_pack.Item(id=1, source="notes::1", content=_ANSWERS["en"][1], origin="RAG"),)
    tools = run_plan.allowed(enforce_lines.Provisions())
    asked = "Find out who renews the certificate of the registry, and write down until when it has to be done."
    messages = run_plan_nodes.messages(asked, run_plan_nodes.Context(rules_context.Standing(), items), _NOW, tools)

    def wrong(draft: run_plan.Draft) -> str:
        steps, dropped = run_plan.judged(draft)
        return "" if steps and not dropped else "; ".join(dropped)

    return trials.Trial("planner", "a plan", "en", messages, wrong, run_plan.Draft, run_plan.wire(tools))


if __name__ == "__main__":
    sys.exit(trials.main(every))
