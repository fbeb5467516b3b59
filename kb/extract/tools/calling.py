"""Asks the judging model with native tool calls in the place of one structured answer (`kb.settings.qualifyTools`).

A model that calls nothing that decides, or whose backend knows no tools, is asked for the structured answer instead.
"""

from __future__ import annotations

from datetime import date

from crds import priority
from kb import api, errors, metrics
from kb.extract import answers, draft, hints, prompt, typed
from kb.extract.tools import task
from kb.rules import calling, enforce
from router import client as router_client


class Calling:
    """Asks through `asked`; `rules` may forbid tools."""

    def __init__(self, asked: answers.Answers, meters: metrics.Metrics, rules: enforce.Port) -> None:
        self._answers = asked
        self._meters = meters
        self._rules = rules

    async def judge(
        self,
        question: prompt.Prompt,
        issue_key: str,
        made: draft.Draft,
        request: api.IngestRequest,
        urgency: priority.Priority,
        spent: answers.Spent,
        problems: list[str],
    ) -> hints.Judgement | None:
        """The judgement that the calls of a model fill, or None. Raises the operational errors of `Answers.called`,
        and `kb.errors.Away`."""
        barred = await calling.barred(self._rules, request.scope)
        about = task.About.of(request, made, issue_key, barred)
        calls = _Counted(about, self._meters)
        if not any(one.name == "routeTask" for one in about.tools):
            return None
        try:
            await self._answers.called(question, calls, urgency, request.scope, spent)
        except router_client.Rejected as error:
            problems.append(f"the model was asked without tools: {error.message}")
            return None
        except errors.Unusable as error:
            problems.append(error.message)
            return None
        problems += calls.contradictions
        return calls.judgement()


class _Counted(task.Calls):
    """Calls that are counted by tool and outcome."""

    def __init__(self, about: task.About, meters: metrics.Metrics) -> None:
        super().__init__(about)
        self._meters = meters
        self._names = frozenset(one.name for one in about.tools) | frozenset(about.barred)

    def call(self, name: str, arguments: object) -> tuple[bool, dict[str, object]]:
        """Carry out a call of a model; whether it holds, and its result."""
        outcome, result = self.answer(name, arguments)
        self._meters.tools.labels(name if name in self._names else "unknown", outcome).inc()
        return outcome == "ok", result


def question(
    request: api.IngestRequest, text: str, seen: str, issue_key: str, *, today: date, num_ctx: int | None
) -> prompt.Prompt:
    """The prompt `kb.qualify.tools/v1` about a text; as `typed.question`, with what calls refer to."""
    lines = [
        f"Today: {today.isoformat()}",
        f"Team: {', '.join(' '.join(one.split()) for one in request.team)}",
        f"Kind: {request.kind}",
        f"Title: {request.title}",
        f"Document: {' '.join(request.source_urn.split())}",
        *([f"Issue: {issue_key}"] if issue_key else []),
    ]
    shown = typed.document(text, seen, num_ctx)
    return prompt.compose("kb.qualify.tools/v1", typed.instructions("tools.v1"), lines, shown)
