"""The state of the graph: small, so that a checkpoint costs little. Whatever is large lies in `artifacts` by its hash.

A change of meaning raises SCHEMA; `rounds` refuses what this program does not know. Old checkpoints are kept in
`tests/orchestrator_job/corpus`.
"""

from __future__ import annotations

from typing import Any, TypedDict

SCHEMA = 1


class State(TypedDict, total=False):
    """Keys appear as nodes write them.

    schema, round, digest    which round of questions and answers this is, and over which input (`memory.digest`)
    document, pack, answer   artifact keys: the task's text, the evidence, the model's validated answer
    standing                 artifact key: the rules in force and what is known about the user; absent in older threads
    question, query          what the model is asked, and what the knowledge base is asked
    trail                    digests of the last actions, for `stuck`
    approval                 what a person decided on this round's answer (`Decided`); empty when nothing asks for it
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
    answer: str
    trail: list[str]
    approval: dict[str, Any]
    finished: int
    exit_reason: str
    summary: str
    questions: list[dict[str, str]]
