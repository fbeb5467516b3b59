"""From a generation request to the text that is streamed: the tag chooses the rule, the schema shapes what it says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.fakes.ollama.protocol import request
from tests.fakes.ollama.rules import (
    calling,
    deciding,
    delegating,
    extract,
    fitting,
    generic,
    hints,
    intent,
    link,
    plan,
    prompt,
    qualify,
    respond,
    text,
    vision,
)

_PROSE = 400
_ORDERED = ("job.respond/v1", "job.plan/v1", "job.plan_delegations/v1", "job.intent/v1")


def answer(wanted: request.Generation, embed: respond.Embed, written: Sequence[str] = ()) -> str:
    """The whole answer. With a format it is JSON that fits it, without one it is prose quoted from the prompt.

    `embed` turns texts into vectors; only rules that rank evidence call it. `written` is the writing in each image.
    """
    asked = prompt.parse((message.role, message.content) for message in wanted.messages)
    document = vision.answer(asked.tag, written) if asked.tag and written else _by_tag(asked, embed)
    wants = intent.order(asked, intent.offered(wanted.format)) if asked.tag in _ORDERED else {}
    # A plan of agents is made for each order.
    delegates = asked.tag == "job.plan_delegations/v1"
    if intent.works(wants) and not delegates:
        document = wants
    elif not document.get("questions"):  # who asks back does not say what is wanted
        document = {**document, **wants}
    if delegates and wants.get("intent") == "advice" and "ask of us" not in asked.question:
        document["delegations"] = []
    if delegates:
        document["procedure"] = intent.procedure(asked)
    if wanted.format is None:
        return _prose(asked, document, embed)
    if asked.tag == calling.TAG and isinstance(wanted.format, dict):
        turns = [(message.role, message.content) for message in wanted.messages]
        return json.dumps(calling.chosen(turns, wanted.format), ensure_ascii=False)
    known = generic.facts(asked.document, asked.today)
    if wanted.format == "json":
        said = document or generic.free_json(known)
    elif document:
        said = fitting.fit(wanted.format, document, known)
    else:
        said = generic.instance(wanted.format, known)
    return json.dumps(said, ensure_ascii=False)


def _by_tag(asked: prompt.Prompt, embed: respond.Embed) -> dict[str, Any]:
    """The known rule's answer; empty for every other prompt."""
    match asked.tag:
        case "kb.extract/v1":
            return extract.answer(asked)
        case "kb.hints/v2":
            return hints.answer(asked)
        case str(tag) if tag.startswith("kb.qualify."):
            return qualify.answer(asked)
        case "kb.link/v1":
            return link.answer(asked)
        case "kb.agent.decide/v1":
            return deciding.decide(asked)
        case "kb.agent.answer/v1" | "kb.agent.summary/v1":
            return deciding.answer(asked)
        case "job.plan/v1":
            return plan.answer(asked)
        case "job.plan_delegations/v1":
            return delegating.plan(asked)
        case "job.design/v1":
            return delegating.design(asked)
        case "job.goals/v1":
            return delegating.goals(asked)
        case "job.plan_steps/v1":
            return delegating.steps(asked)
        case str(tag) if tag.startswith("job.agent."):
            return delegating.report(asked, embed)
        case "job.synthesize/v1":
            return delegating.synthesis(asked, embed)
        case "job.respond/v1":
            return respond.answer(asked, embed)
        case _:
            return {}


def _prose(asked: prompt.Prompt, document: dict[str, Any], embed: respond.Embed) -> str:
    if not document and asked.question and asked.evidence:
        document = respond.answer(asked, embed)
    for name in ("answer", "summary"):
        if document.get(name):
            return str(document[name])
    return text.shorten(" ".join(text.key_sentences(asked.document, 2)) or asked.document, _PROSE)
