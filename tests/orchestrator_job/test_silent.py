"""What a run reads, asks and answers, and what opens doors to it, stands in no line of its log, whatever it logs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge

pytestmark = pytest.mark.services
SAID = ("quetzal-question", "quetzal-evidence", "quetzal-answer", "quetzal-wrong", "quetzal-context", "quetzal-asked")
SECRET = "canary-run-token"


async def test_neither_content_nor_secrets(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    question, evidence, answer, wrong, context, asked = SAID
    token = task.folder / "run-token"
    token.write_text(SECRET)
    doors = {"JERVIS_LOG_LEVEL": "debug", "JERVIS_RUN_TOKEN_FILE": str(token)}
    known.items = [knowledge.hit(f"The release is {evidence}.")]
    answered = job.reply(answer=f"On {answer} [1].")
    needs = job.reply(needsInput=True, answer="", citations=[], questions=[f"Which {asked}?"])
    logs: list[str] = []
    no_json = f"no JSON {wrong}"
    scripts: list[list[Any]] = [[answered], [no_json, answered], [no_json] * 5, [needs]]
    for number, replies in enumerate(scripts):
        folder = task.folder / str(number)
        folder.mkdir()
        current = job.Job(folder, task.environment["JERVIS_MONGODB_URI"], store.name, known.url, fake.url)
        store.remember(current.memory(content=f"When is {question}?", contextSummary=f"A {context}."))
        fake.set_script({job.TAG: replies})
        ended = await current.run(1, **doors)
        logs += [str(line) for line in ended.lines]
    known.refusals = [(422, {"code": "invalid", "message": "the query is wrong", "field": "query"})]
    ended = await task.run(1, **doors)
    logs += [str(line) for line in ended.lines]
    assert len([line for line in logs if "exit_reason" in line]) == 5
    assert [line for line in logs if any(text in line for text in (*SAID, SECRET))] == []
