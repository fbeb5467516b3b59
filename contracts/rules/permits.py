"""Lines of a hard rule that permit effects to the runs of its scope without a person. Pure.

    enforce: permit tool=sendMail connection=team-mailbox targets=*@example.com most=3 notAfter=2027-03-31T00:00:00Z

The fields are those of a permit in a task's spec (`crds.permits`), `most` counts in each task. `notAfter` is needed: a
standing permit ends. Such lines stand in rules of type SECURITY, which a person writes.

`contracts.rules.enforce_lines` finds the lines, `kb.service` refuses bad ones, runs hold them.
"""

from __future__ import annotations

from crds import permits
from crds.permits import Permit

VERB = "permit"
TYPE = "SECURITY"
"""The type of rules in which they stand."""


def parse(words: str) -> Permit:
    """The line `enforce: permit words`. Raises ValueError, which names the field and what to write."""
    found = permits.parse(words)
    if found.not_after is None:
        raise ValueError(
            "notAfter: a standing permit ends; write until when it holds, such as notAfter=2027-03-31T00:00:00Z"
        )
    return found
