"""The run's question: the user's text, or what a received document asks for. Pure."""

from __future__ import annotations

import re

from orchestrator_job import memory, pack

_QUESTION_CHARS = 4000
_QUERY_CHARS = 2000
_TITLE_CHARS = 160
_SUBJECT = re.compile(r"^(?:Subject|Summary|Title):[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)


def title(task: memory.TaskMemory, document: str) -> str:
    """The task's title, its subject line, or its first line; at most 160 characters."""
    subject = _SUBJECT.search(document[:_QUESTION_CHARS])
    first_line = next((line.strip() for line in document.splitlines() if line.strip()), "")
    return (task.title or (subject.group(1).strip() if subject else "") or first_line)[:_TITLE_CHARS]


def ask(task: memory.TaskMemory, document: str) -> str:
    """The question for the model with the user's additions; at most about 4000 characters per part."""
    if task.asked_by_user:
        main = document.strip()[:_QUESTION_CHARS]
    else:
        main = f'What does "{title(task, document)}" ask of us, and what has to be done by whom and by when?'
    if not task.asked_by_user and task.source_type:
        main += f"\nIt came as {' '.join(filter(None, (task.source_type, task.source_id)))}{_due(task)}."
    added = [f"The user added: {message.text}" for message in task.messages]
    answered = [f"Asked back, the user answered: {given.text}" for given in task.answers]
    return "\n".join([main, *added, *answered])


def _due(task: memory.TaskMemory) -> str:
    deadline = task.structured_data.get("deadline")
    return f"; its deadline was read as {deadline}" if deadline else ""


def query(task: memory.TaskMemory, document: str) -> str:
    """The query for the knowledge base, at most 2000 characters; the latest additions come first, as they narrow it."""
    said = [answer.text for answer in reversed(task.answers)] + [message.text for message in reversed(task.messages)]
    main = document.strip() if task.asked_by_user else f"{title(task, document)}\n{task.context_summary or ''}"
    return "\n".join(part for part in [*said, main.strip()] if part)[:_QUERY_CHARS]


def own_evidence(task: memory.TaskMemory, document: str) -> list[pack.Item]:
    """The task's document (unless it is the question itself) and the user's additions, as items without numbers."""
    items: list[pack.Item] = []
    if not task.asked_by_user:
        items.append(
            pack.Item(
                id=0,
                source=task.source,
                title=title(task, document),
                content=document,
                origin="Task",
            )
        )
    for message in task.messages:
        items.append(pack.Item(id=0, source=f"message:{message.id}", content=message.text, origin="User"))
    for given in task.answers:
        items.append(pack.Item(id=0, source=f"answer:{given.id}", content=given.text, origin="User"))
    return items
