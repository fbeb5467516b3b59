"""What is long is summarized by a model, within the round's budget; it is never cut.

A text that does not fit into one prompt is summarized part by part, so that no part of it is left out. Without a model,
without budget, or with an answer that is not whole there is no summary, and the full text stays what is shown.
Source: seed 001 `app/context/summarizer.py` ("no truncation of agent outputs").
"""

from __future__ import annotations

import structlog

from crds.priority import Priority
from orchestrator_job import errors
from orchestrator_job.model import model_calls, prompt_escape, prompts
from router import client as router_client
from router.client import reading
from router.client.asking import THOUGHTS

_log = structlog.get_logger("orchestrator_job.context.summarizer")

PROMPT = "context.v1"
SHORT_CHARS = 1500
"""A text that is no longer is its own summary."""
NUM_CTX = 8192
"""Window of the model where none is set, in tokens."""
_ANSWER_TOKENS = 700
_PART_CHARS_PER_TOKEN = 2
"""So few characters per token leave room for the prompt, in any language."""


class Summarizer:
    """Asks `model` on the round's budget; `num_ctx` is its window in tokens."""

    def __init__(self, asks: model_calls.Asking, *, model: str, urgency: Priority, num_ctx: int | None) -> None:
        self._asks = asks
        self._model = model
        self._urgency = urgency
        self._num_ctx = num_ctx

    async def summary(self, round_number: int, title: str, text: str) -> str | None:
        """The text itself if it is short, else its summary; None where none can be made. Raises Fenced, and what a
        refused token raises."""
        if len(text) <= SHORT_CHARS:
            return text
        made: list[str] = []
        for part in parts(text, (self._num_ctx or NUM_CTX) * _PART_CHARS_PER_TOKEN):
            try:
                reply = await self._asks.ask(
                    f"r{round_number}.context",
                    messages(title, part),
                    priority=self._urgency,
                    model=self._model,
                    num_ctx=self._num_ctx,
                    num_predict=_ANSWER_TOKENS + THOUGHTS,
                    think=False,
                )
            except router_client.Unauthorized:
                raise
            except (errors.BudgetExhausted, router_client.Unavailable, router_client.Rejected) as error:
                _log.warning("there is no summary", of=title[:100], reason=error.message)
                return None
            said = reading.plain(prompt_escape.restore(reply.text))
            if not said or reply.cut:
                _log.warning("there is no summary", of=title[:100], reason="the model gave none that is whole")
                return None
            made.append(said)
        whole = "\n".join(made)
        return whole if len(whole) < len(text) else None


def messages(title: str, text: str) -> list[dict[str, str]]:
    """System and user message."""
    user = f"<question>{prompt_escape.defuse(title)}</question>\n<document>\n{prompt_escape.defuse(text)}\n</document>"
    return [{"role": "system", "content": prompts.tagged(PROMPT)}, {"role": "user", "content": user}]


def parts(text: str, most: int) -> list[str]:
    """The text in pieces of at most `most` characters, between paragraphs or lines where there are any; together they
    are the text."""
    found: list[str] = []
    while len(text) > most:
        at = max(text.rfind("\n\n", 0, most), text.rfind("\n", most // 2, most))
        at = at if at > 0 else most
        found.append(text[:at])
        text = text[at:]
    return [*found, text]
