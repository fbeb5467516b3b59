"""What is written for the model that plans, and for each agent: by importance, each entry whole or not at all. Pure.

Rules and the question are never left out, then comes the task's own text, then evidence best first. A question is whole
unless it has more than three quarters of the room: then its middle is left out, and a line says so. Of all else only
the task's own text is shortened, behind a whole paragraph and with a line that says where the rest is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from importlib import resources

from kb import api
from orchestrator_job.agents import registry
from orchestrator_job.answer import answer_prompt, evidence_pack
from orchestrator_job.model import excerpt, prompt_escape, rules_context
from orchestrator_job.plan import procedures
from router.client import reading

TAG = "[prompt:job.plan_delegations/v1]"
ANSWER_TOKENS = 2048
"""Part of the window for the plan."""
_TOKEN_BYTES = 4
QUESTION_FRAME = 21
_WHOLE = "The whole task, of which this is a part: "
_NEAREST = 3
_LEAST = 400
"""Fewer bytes of evidence are no context for a plan."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the plan is made from."""

    question: excerpt.Parts | str
    hint: str
    today: date
    rules: rules_context.Standing
    items: tuple[evidence_pack.Item, ...]
    session: tuple[api.SessionEntry, ...]
    learned: tuple[api.Procedure, ...]
    agents: tuple[registry.Agent, ...]


def nearest(asked: Asked) -> Asked:
    """What is nearest to the task alone, for a model to which all of it was too much."""
    return replace(asked, items=asked.items[:_NEAREST], session=(), learned=())


def messages(asked: Asked, num_ctx: int) -> list[dict[str, str]]:
    """System and user message, within `num_ctx` tokens with the answer. Rules and agents are whole, and so is the
    question where it fits; then evidence best first, learned procedures and the session get what room is left, each
    entry whole or not at all.

    Raises Unusable when there is no room for evidence.
    """
    system = f"{TAG}\n{_instructions()}{answer_prompt.rules(asked.rules)}"
    agents = "\n".join(f"{one.name}: {one.capability.description}" for one in asked.agents)
    before = f"Today: {asked.today.isoformat()}\nAgents:\n{agents}\nKind of task: {asked.hint}"
    room = (num_ctx - ANSWER_TOKENS) * _TOKEN_BYTES - _size(system) - _size(before) - QUESTION_FRAME
    question = excerpt.within(asked.question, excerpt.beside(room), prompt_escape.defuse)
    after = f"<question>{question}</question>"
    room -= _size(question)
    if room < _LEAST:
        raise reading.Unusable("The rules leave no room for evidence in the planner's window.")
    talk = _conversation(asked.rules.conversation, room - _LEAST)
    room -= _size(talk)
    evidence = answer_prompt.evidence(chosen(unrepeated(asked.items, asked.question, question), room))
    room -= _size(evidence)
    learned = _whole("procedures", procedures.shown(asked.learned).split("\n") if asked.learned else [], room)
    room -= _size(learned)
    session = _whole("session", [_entry(one) for one in asked.session], room)
    user = "\n".join(part for part in (before, session, learned, talk, evidence, after) if part)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def context(asked: excerpt.Parts | str, items: Sequence[evidence_pack.Item], most_tokens: int) -> str:
    """What a delegation knows of the task: the question, whole where it fits, then the evidence, the task's own text
    first and the rest best first, each whole or not at all, within `most_tokens`."""
    left = most_tokens * _TOKEN_BYTES
    question = excerpt.within(asked, excerpt.beside(left - _size(_WHOLE)))
    lines = [f"{_WHOLE}{question}"]
    left -= _size(lines[0])
    for item in unrepeated(items, asked, question):
        # Without its number: tools number their passages as well, so the source is what an agent can name.
        shown = f"{item.title}\nsource: {item.source}\n{item.content}"
        room = left - 1 if _is_task(item) else left
        if _size(shown) >= room and _is_task(item):
            shown = _paragraphs(shown, room, item.source)
        if not shown or _size(shown) >= left:
            continue
        lines.append(shown)
        left -= _size(shown) + 2
    return "\n\n".join(lines)


def unrepeated(items: Sequence[evidence_pack.Item], asked: excerpt.Parts | str, shown: str) -> list[evidence_pack.Item]:
    """The evidence without parts of an order which the question as it is `shown` has as well."""
    main = asked.main if isinstance(asked, excerpt.Parts) else asked
    whole = main in shown or prompt_escape.defuse(main) in shown
    return [item for item in items if item.origin != evidence_pack.ORDER or not whole]


def chosen(items: Sequence[evidence_pack.Item], room: int) -> list[evidence_pack.Item]:
    """The evidence whose blocks fit into `room` bytes: of the task's own text whole paragraphs, other items whole."""
    fitting: list[evidence_pack.Item] = []
    for item in items:
        size = _size(answer_prompt.evidence([item])) + 1
        if size > room and _is_task(item):
            # Half of the room is for what others wrote.
            cut = _paragraphs(item.content, room // 2 - size + _size(item.content), item.source)
            item = item.model_copy(update={"content": cut})
            size = _size(answer_prompt.evidence([item])) + 1 if cut else room + 1
        if size <= room:
            fitting.append(item)
            room -= size
    return fitting


def _paragraphs(text: str, room: int, source: str) -> str:
    """The first paragraphs of a text that fit, and a line that says that there are more; nothing if none fits."""
    more = f"[The rest is left out; it is in {source}.]"
    left = room - _size(more) - 2
    kept: list[str] = []
    for paragraph in text.split("\n\n"):
        left -= _size(paragraph) + 2
        if left < 0:
            break
        kept.append(paragraph)
    return "\n\n".join([*kept, more]) if kept else ""


def _whole(name: str, lines: Sequence[str], room: int) -> str:
    left = room - 2 * len(name) - 10
    kept: list[str] = []
    for line in map(prompt_escape.defuse, lines):
        left -= _size(line) + 1
        if left < 0:
            break
        kept.append(line)
    return "\n".join([f"<{name}>", *kept, f"</{name}>"]) if kept else ""


def _conversation(said: str, room: int) -> str:
    """What was said before, within `room` bytes: its latest part and its summary, which are its ends."""
    left = room - len("<conversation>\n\n</conversation>")
    if not said or left < _LEAST:
        return ""
    return f"<conversation>\n{excerpt.ends(prompt_escape.defuse(said), left)}\n</conversation>"


def _entry(one: api.SessionEntry) -> str:
    return f"{one.timestamp:%Y-%m-%d %H:%M} {one.source}: {' '.join(one.summary.split())}"


def _is_task(item: evidence_pack.Item) -> bool:
    return item.origin in evidence_pack.OWN


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


@functools.cache
def _instructions() -> str:
    return (
        (resources.files("orchestrator_job.model.prompts") / "plan_delegations.v1.txt")
        .read_text(encoding="utf-8")
        .strip()
    )
