"""What is written for the model that plans, and for each agent: by importance, each entry whole or not at all. Pure.

Rules and the question are never left out, then comes the task's own text, then evidence best first. A question is whole
unless it has more than three quarters of the room: then its middle is left out, and a line says so. Of all else only
the task's own text is shortened, behind a whole paragraph and with a line that says where the rest is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kb import api
from orchestrator_job.agents import registry
from orchestrator_job.answer import answer_prompt, evidence_pack
from orchestrator_job.model import excerpt, intent, prompt_budget, prompt_escape, prompts, rules_context
from orchestrator_job.plan import procedures
from router.client import reading

PROMPT = "plan_delegations.v1"
ANSWER_TOKENS = 2048
"""Part of the window for the plan."""
_WHOLE = "The whole task, of which this is a part: "
_NEAREST = 3
_NAMED = """
procedure is the name of the procedure by which <question> wants it done, copied letter by letter, and "" where it names
none."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the plan is made from."""

    question: excerpt.Parts | str
    now: datetime
    rules: rules_context.Standing
    items: tuple[evidence_pack.Item, ...]
    session: tuple[api.SessionEntry, ...]
    learned: tuple[api.Procedure, ...]
    agents: tuple[registry.Agent, ...]
    by_procedure: bool = False


def nearest(asked: Asked) -> Asked:
    """What is nearest to the task alone, for a model to which all of it was too much."""
    return replace(asked, items=asked.items[:_NEAREST], session=(), learned=())


def messages(asked: Asked, num_ctx: int) -> list[dict[str, str]]:
    """System and user message, within `num_ctx` tokens with the answer. Rules and agents are whole, and so is the
    question where it fits; then evidence best first, learned procedures and the session get what room is left, each
    entry whole or not at all.

    Raises Unusable when there is no room for evidence.
    """
    named = _NAMED if asked.by_procedure else ""
    system = f"{prompts.tagged(PROMPT)}{intent.asked(intent.WORKED)}{named}{answer_prompt.rules(asked.rules)}"
    agents = "\n".join(f"{one.name}: {one.capability.description}" for one in asked.agents)
    before = f"{asked.rules.today(asked.now)}\nAgents:\n{agents}"
    fitted = prompt_budget.fit(asked.question, (system, before), num_ctx - ANSWER_TOKENS)
    room = fitted.left
    if room < prompt_budget.LEAST:
        raise reading.Unusable("The rules leave no room for evidence in the planner's window.")
    talk = _conversation(asked.rules.conversation, room - prompt_budget.LEAST)
    room -= excerpt.size(talk)
    items = answer_prompt.unrepeated(asked.items, asked.question, fitted.question)
    evidence = answer_prompt.evidence(answer_prompt.chosen(items, room))
    room -= excerpt.size(evidence)
    learned = _whole("procedures", procedures.shown(asked.learned).split("\n") if asked.learned else [], room)
    room -= excerpt.size(learned)
    session = _whole("session", [_entry(one) for one in asked.session], room)
    user = "\n".join(part for part in (before, session, learned, talk, evidence, fitted.block) if part)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def context(asked: excerpt.Parts | str, items: Sequence[evidence_pack.Item], most_tokens: int) -> str:
    """What a delegation knows of the task: the question, whole where it fits, then the evidence, the task's own text
    first and the rest best first, each whole or not at all, within `most_tokens`."""
    left = most_tokens * prompt_budget.TOKEN_BYTES
    question = excerpt.within(asked, excerpt.beside(left - excerpt.size(_WHOLE)))
    lines = [f"{_WHOLE}{question}"]
    left -= excerpt.size(lines[0])
    for item in answer_prompt.unrepeated(items, asked, question):
        # Without its number: tools number their passages as well, so the source is what an agent can name.
        shown = f"{item.title}\nsource: {item.source}\n{item.content}"
        own = item.origin in evidence_pack.OWN
        room = left - 1 if own else left
        if excerpt.size(shown) >= room and own:
            shown = answer_prompt.paragraphs(shown, room, item.source)
        if not shown or excerpt.size(shown) >= left:
            continue
        lines.append(shown)
        left -= excerpt.size(shown) + 2
    return "\n\n".join(lines)


def _whole(name: str, lines: Sequence[str], room: int) -> str:
    kept = prompt_budget.leading(map(prompt_escape.defuse, lines), room - 2 * len(name) - 10)
    return "\n".join([f"<{name}>", *kept, f"</{name}>"]) if kept else ""


def _conversation(said: str, room: int) -> str:
    """What was said before, within `room` bytes: its latest part and its summary, which are its ends."""
    left = room - len("<conversation>\n\n</conversation>")
    if not said or left < prompt_budget.LEAST:
        return ""
    return f"<conversation>\n{excerpt.ends(prompt_escape.defuse(said), left)}\n</conversation>"


def _entry(one: api.SessionEntry) -> str:
    return f"{one.timestamp:%Y-%m-%d %H:%M} {one.source}: {' '.join(one.summary.split())}"
