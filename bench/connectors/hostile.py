"""`python -m bench.connectors.hostile`: how long each hostile mail takes until it is an item or a failure.

Wanted: no crash, and at most a second each. JSON on stdout; exit status 1 when a target is missed.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import structlog

from bench.connectors import mails
from sources.providers.mail import mails as source

MOST_MS = 1000.0


def main() -> int:
    """Read each once."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    rows = {name: _read(make()) for name, make in mails.HOSTILE.items()}
    slow = [name for name, row in rows.items() if row["ms"] > MOST_MS]
    crashed = [name for name, row in rows.items() if row["outcome"] == "crash"]
    print(json.dumps({"mails": rows, "slower_than_1s": slow, "crashed": crashed}, indent=1))
    return 1 if slow or crashed else 0


def _read(raw: bytes) -> dict[str, Any]:
    begun = time.process_time()
    try:
        items, failures = source.read([source.Fetched(source.Head(1, len(raw), "INBOX/1/1"), raw)])
    except Exception as error:  # noqa: BLE001  # a crash is a finding
        outcome, why = "crash", repr(error)
    else:
        outcome = "item" if items else "failure"
        why = failures[0].reason[:120] if failures else ""
    took = (time.process_time() - begun) * 1000
    return {"kib": round(len(raw) / 1024, 1), "ms": round(took, 1), "outcome": outcome, "why": why}


if __name__ == "__main__":
    sys.exit(main())
