"""The answer to a task with its evidence: the whole result from MongoDB, read where MongoDB can be reached.

The object holds a summary only; the result is in `task_results`. A pod of the release reads it, because the database
need not be reachable from where the user sits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

from crds import pendingtask
from hack.demo import errors
from hack.demo.kubectl import Kubectl

_READER = """
import json, os, sys, pymongo
client = pymongo.MongoClient(os.environ["JERVIS_KB_MONGODB_URI"], serverSelectionTimeoutMS=10000)
print(json.dumps(client.get_database(sys.argv[1])[sys.argv[2]].find_one({"_id": sys.argv[3]}), default=str))
"""
_DATABASE = "jervis"


@dataclass(frozen=True)
class Answer:
    """`evidence` is what the citations [1], [2]... in `text` stand for, by number."""

    text: str
    evidence: Mapping[int, tuple[str, str]]


def read(cluster: Kubectl, task: pendingtask.PendingTask) -> Answer:
    """The stored result. Raises errors.Failure for a task without one."""
    result = task.status.result
    if result is None or result.ref is None or not result.ref.key:
        raise errors.Failure(f"{task.metadata.name} has no stored result: its phase is {task.status.phase or 'New'}")
    output = cluster.run(
        *("exec", "-i", "deployment/jervis-kb", "--", "python", "-"),
        *(_DATABASE, result.ref.collection, result.ref.key),
        stdin=_READER,
    )
    document: dict[str, Any] | None = json.loads(output)
    if document is None:
        raise errors.Failure(f"{result.ref.collection} holds nothing under {result.ref.key}")
    numbered = {int(item["id"]): (str(item["source"]), str(item["content"])) for item in document["evidence"]}
    cited = [int(number) for number in document["citations"]]
    return Answer(str(document["answer"]), {number: numbered[number] for number in cited if number in numbered})


def show(console: Console, answer: Answer) -> None:
    """The answer, then each cited piece of evidence with its source."""
    console.print(f"  {escape(answer.text)}", soft_wrap=True)
    for number, (urn, content) in sorted(answer.evidence.items()):
        console.print(f"\n  \\[{number}] [cyan]{escape(urn)}[/]", soft_wrap=True)
        for line in content.strip().splitlines():
            console.print(f"      {line}".rstrip(), style="dim", markup=False, highlight=False, soft_wrap=True)
