"""The termination message of the container, which the operator reads: at most 4096 bytes of JSON.

    {"exitReason", "summary" (<= 2 KiB), "attempt", "ref"? {store, collection, key}, "questions"? [{id, text}],
     "waiting"? number of effects that wait for approval, "about"?, "plan"? "Made" | "Amended" | "Failed",
     "messagesRead"?, "unavailable"? such as "router" or "mongodb", "retryAfterSeconds"?,
     "absentTools"?, "field"?, "remedy"?}

Every field is bounded here: summary 2 KiB, at most 16 questions with ids of 63 characters and texts of 2 KiB, field and
remedy 256 bytes, absentTools 512 bytes, retryAfterSeconds a whole number up to a day; `about` 253 characters, or it is
left out, because a part of it would be another request. Nothing nests deeper than questions[].text. The effects
themselves are in `task_results`. A message that is too long is shortened: questions before the summary.

Source: Kubernetes "Determine the Reason for Pod Failure" (4096 bytes per container; the kubelet cuts longer ones, which
would leave broken JSON).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from crds import approvals, pendingtask
from orchestrator_job import outcome
from text import surrogates

LIMIT = 4096
_FIELD_BYTES = 256
_TOOLS_BYTES = 512
_SHORTEST_QUESTION = 64
_MOST_QUESTIONS = 16
_ID_BYTES = 63
_LONGEST_RETRY = 86_400


def encode(result: outcome.Outcome, task_uid: str, attempt: int) -> bytes:
    """The message as complete UTF-8 JSON of at most LIMIT bytes.

    A shortened question keeps its id; if that does not suffice, the last questions are left out (`task_results` has all
    of them).
    """
    summary_bytes = pendingtask.SUMMARY_BYTES
    question_bytes = pendingtask.SUMMARY_BYTES
    count = min(len(result.questions), _MOST_QUESTIONS)
    while True:
        body = _body(result, task_uid, attempt, summary_bytes, question_bytes, count)
        message = surrogates.clean(json.dumps(body, ensure_ascii=False, separators=(",", ":"))).encode()
        if len(message) <= LIMIT:
            return message
        # Escapes (quotes, newlines, control characters) count after encoding, hence the loop instead of arithmetic.
        if count and question_bytes > _SHORTEST_QUESTION:
            question_bytes //= 2
        elif count > 1:
            count -= 1
        else:
            summary_bytes //= 2


def write(path: Path, message: bytes) -> None:
    """Write the message to the path that the kubelet reads; raises OSError when that is impossible."""
    path.write_bytes(message)


def shorten(text: str, limit: int) -> str:
    """`text` cut to at most `limit` bytes of UTF-8 at a character boundary, with "…" where it was cut."""
    return approvals.cut_to(text, limit)


def _body(
    result: outcome.Outcome, task_uid: str, attempt: int, summary_bytes: int, question_bytes: int, count: int
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "exitReason": result.reason.value,
        "summary": shorten(result.summary, summary_bytes),
        "attempt": attempt,
    }
    if result.has_result:
        body["ref"] = pendingtask.ResultRef(collection=outcome.RESULTS, key=task_uid).wire()
    if count:
        body["questions"] = [
            {"id": shorten(question.id, _ID_BYTES), "text": shorten(question.text, question_bytes)}
            for question in result.questions[:count]
        ]
    if result.waiting:
        body["waiting"] = result.waiting
    if 0 < len(result.about) <= approvals.ID_CHARS:
        body["about"] = result.about
    if result.plan is not None:
        body["plan"] = result.plan.value
    if result.messages_read is not None:
        body["messagesRead"] = result.messages_read
    if result.unavailable is not None:
        body["unavailable"] = result.unavailable
    if result.retry_after is not None and math.isfinite(result.retry_after):
        body["retryAfterSeconds"] = min(max(0, math.ceil(result.retry_after)), _LONGEST_RETRY)
    if result.absent_tools:
        body["absentTools"] = shorten(result.absent_tools, _TOOLS_BYTES)
    for name, value in (("field", result.field), ("remedy", result.remedy)):
        if value is not None:
            body[name] = shorten(value, _FIELD_BYTES)
    return body
