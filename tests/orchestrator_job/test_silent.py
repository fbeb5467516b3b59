"""What a run reads, asks and answers, and what opens doors to it, stands in no line of its log, whatever it logs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestrator_job import job, knowledge
from tests.orchestrator_job.desk import Desk

pytestmark = pytest.mark.services
SAID = ("quetzal-question", "quetzal-evidence", "quetzal-answer", "quetzal-wrong", "quetzal-context", "quetzal-asked")
SECRET = "canary-run-token"


async def test_neither_content_nor_secrets(desk: Desk) -> None:
    question, evidence, answer, wrong, context, asked = SAID
    token = desk.task.folder / "run-token"
    token.write_text(SECRET)
    doors = {"JERVIS_LOG_LEVEL": "debug", "JERVIS_RUN_TOKEN_FILE": str(token)}
    desk.known.items = [knowledge.hit(f"The release is {evidence}.")]
    answered = job.reply(answer=f"On {answer} [1].")
    needs = job.reply(needsInput=True, answer="", citations=[], questions=[f"Which {asked}?"])
    logs: list[str] = []
    no_json = f"no JSON {wrong}"
    scripts: list[list[Any]] = [[answered], [no_json, answered], [no_json] * 5, [needs]]
    for replies in scripts:
        one = desk.another()
        ended = await one.run(replies, content=f"When is {question}?", contextSummary=f"A {context}.", **doors)
        logs += [str(line) for line in ended.lines]
    desk.known.refusals = [(422, {"code": "invalid", "message": "the query is wrong", "field": "query"})]
    ended = await desk.run(**doors)
    logs += [str(line) for line in ended.lines]
    assert len([line for line in logs if "exit_reason" in line]) == 5
    assert [line for line in logs if any(text in line for text in (*SAID, SECRET))] == []
