"""The run's question: the user's text, or what a received document asks for. Pure.

A question that is long is an artifact: the state has what of it fits into SHORT bytes, and its key (`asked`).
`question_store` keeps it. Each prompt shows as much of the whole as its window has room for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator_job.answer import evidence_pack
from orchestrator_job.model import excerpt
from orchestrator_job.store import task_memory

SHORT = 4000
"""Bytes of a question in the state, and of one in a plan's step."""
_TITLE_READ = 4000
_QUERY_CHARS = 2000
_TOKEN_BYTES = 3
"""Fewer than a token has on average: the count of a prompt that is longer than others must not be too low."""
_ANSWER_TOKENS = 4096
_TITLE_CHARS = 160
_SUBJECT = re.compile(r"^(?:Subject|Summary|Title):[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)


def title(task: task_memory.TaskMemory, document: str) -> str:
    """The task's title, its subject line, or its first line; at most 160 characters."""
    subject = _SUBJECT.search(document[:_TITLE_READ])
    first_line = next((line.strip() for line in document.splitlines() if line.strip()), "")
    return (task.title or (subject.group(1).strip() if subject else "") or first_line)[:_TITLE_CHARS]


def ask(task: task_memory.TaskMemory, document: str) -> excerpt.Parts:
    """The question for the models, whole: what the task is, then the user's additions, oldest first."""
    if task.asked_by_user:
        main = document.strip()
    else:
        main = f'What does "{title(task, document)}" ask of us, and what has to be done by whom and by when?'
    if not task.asked_by_user and task.source_type:
        main += f"\nIt came as {' '.join(filter(None, (task.source_type, task.source_id)))}{_due(task)}."
    added = [f"The user added: {message.text}" for message in task.messages]
    answered = [f"Asked back, the user answered: {given.text}" for given in task.answers]
    return excerpt.Parts(main, (*added, *answered))


@dataclass(frozen=True, slots=True)
class Room:
    """What a question has of the prompt of an answer, in bytes: `most` at most, of which `free` take nothing from the
    evidence."""

    most: int
    free: int

    @classmethod
    def of(cls, context_chars: int, num_ctx: int | None) -> Room:
        """`context_chars` bound the evidence. A question has half as much, or, where the window is known, what that
        leaves besides evidence and answer."""
        half = context_chars // 2
        if num_ctx is None:
            return cls(half, SHORT)
        window = (num_ctx - min(_ANSWER_TOKENS, num_ctx // 4)) * _TOKEN_BYTES
        spare = max(SHORT, window - context_chars - SHORT)
        return cls(max(spare, min(half, window // 2)), spare)

    def taken(self, shown: str) -> int:
        """What a question as it is shown takes from the evidence."""
        return max(0, excerpt.size(shown) - self.free)


def _due(task: task_memory.TaskMemory) -> str:
    deadline = task.structured_data.get("deadline")
    return f"; its deadline was read as {deadline}" if deadline else ""


def query(task: task_memory.TaskMemory, document: str) -> str:
    """The query for the knowledge base, at most 2000 characters; the latest additions come first, as they narrow it. Of
    what is too long it has beginning and end."""
    answers, messages = reversed(task.answers), reversed(task.messages)
    said = "\n".join([*(one.text for one in answers), *(one.text for one in messages)])
    main = document.strip() if task.asked_by_user else f"{title(task, document)}\n{task.context_summary or ''}".strip()
    left = max(_QUERY_CHARS // 2, _QUERY_CHARS - len(main) - 1)
    said = excerpt.edges(said, left)
    main = excerpt.edges(main, _QUERY_CHARS - len(said) - 1)
    return "\n".join(part for part in (said, main) if part)


def own_evidence(task: task_memory.TaskMemory, document: str, middle: str = "") -> list[evidence_pack.Item]:
    """The task's document (of an order of a user what the question leaves out of its `middle`) and the user's
    additions, as items without numbers."""
    items: list[evidence_pack.Item] = []
    name = title(task, document)
    if not task.asked_by_user:
        items.append(
            evidence_pack.Item(id=0, source=task.source, title=name, content=document, origin=evidence_pack.TASK)
        )
    elif middle.strip():
        about = f"From the middle of the task: {name}"
        items.append(
            evidence_pack.Item(id=0, source=task.source, title=about, content=middle, origin=evidence_pack.ORDER)
        )
    for message in task.messages:
        items.append(
            evidence_pack.Item(id=0, source=f"message:{message.id}", content=message.text, origin=evidence_pack.USER)
        )
    for given in task.answers:
        items.append(
            evidence_pack.Item(id=0, source=f"answer:{given.id}", content=given.text, origin=evidence_pack.USER)
        )
    return items


def left_out(
    task: task_memory.TaskMemory, document: str, shown: str, gone: Sequence[tuple[evidence_pack.Item, int]]
) -> list[str]:
    """What of the user's own words is in no prompt of the answer, a line each; `shown` is the question as it is shown,
    `gone` has items of `own_evidence` with how many of their characters the evidence leaves out."""
    lines = []
    read, ref = excerpt.size(document), task.content_ref
    if ref is not None and read < ref.bytes:
        lines.append(f"The run reads {read} of the {ref.bytes} bytes of the content, its beginning and its end.")
    for item, count in gone:
        if count and item.origin in (evidence_pack.TASK, evidence_pack.ORDER):
            lines.append(f"{count} of the {len(document)} characters of the task's text are left out.")
    said = [count for item, count in gone if count and item.origin == evidence_pack.USER and item.content not in shown]
    if said:
        every = len(task.messages) + len(task.answers)
        lines.append(f"{sum(said)} characters of {len(said)} of the user's {every} messages and answers are left out.")
    return lines
