"""The state of the graph: small, so that a checkpoint is cheap. Large values are in `artifacts` under their hash.

A change of meaning raises SCHEMA; `rounds` refuses an unknown schema. `tests/orchestrator_job/corpus` has old
checkpoints.
"""

from __future__ import annotations

from typing import Any, TypedDict

SCHEMA = 1


class State(TypedDict, total=False):
    """A key exists once its node has written it.

    schema, round, digest    the round and the digest of its input (`memory.digest`)
    document, pack, answer   artifact keys: the task's text, the evidence, the model's validated answer
    standing                 artifact key: rules in force and user context; absent in older threads
    question, query          for the model and for the knowledge base
    plan                     what `plan.dump` gives, a failed plan included; absent in a run that makes none
    trail                    digests of the last actions, for `stuck`
    approval                 a person's decision on this round's answer (`Decided`); empty if no rule requires one
    exit_reason, summary, questions   the outcome of round `finished`
    """

    schema: int
    round: int
    digest: str
    document: str
    standing: str
    question: str
    query: str
    pack: str
    plan: dict[str, Any]
    answer: str
    trail: list[str]
    approval: dict[str, Any]
    finished: int
    exit_reason: str
    summary: str
    questions: list[dict[str, str]]
