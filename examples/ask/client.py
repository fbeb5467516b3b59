"""Ask the decision agent and print its answer as it comes; a broken connection is taken up again. Needs `httpx`.

    python examples/ask/client.py http://127.0.0.1:8080 acme shop "What is the operating voltage of the pump?"

The token, where the knowledge base asks for one, is read from JERVIS_KB_TOKEN.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

AWAY = 30
"""Seconds that the agent works on after the connection broke, and that are waited for it."""
FIRST, LONGEST = 0.5, 8.0
"""Seconds of the pauses before the connection is taken up again; each one is twice as long as the one before."""
BUSY = {429, 502, 503, 504}
"""What the service says, or a proxy in front of it, when the same call may succeed later."""


class UnreadError(Exception):
    """The answer, or the rest of it, cannot be read; the text says why."""


def events(
    http: httpx.Client, scope: dict[str, str], question: str, pause: Callable[[float], None] = time.sleep
) -> Iterator[dict[str, Any]]:
    """Every event once, in its order. `pause` waits so many seconds. Raises `UnreadError`."""
    body = {"scope": scope, "query": question, "resumeSeconds": AWAY}
    stream, last = "", 0
    waited, seconds = 0.0, FIRST
    while True:
        why = "the answer broke off"
        try:
            asking = (
                http.stream("GET", f"/api/v1/agentic_search/{stream}", params={**scope, "after": last})
                if stream
                else http.stream("POST", "/api/v1/agentic_search", json=body)
            )
            with asking as answer:
                if answer.is_error:
                    why = f"{answer.status_code} {answer.read().decode(errors='replace')[:500]}"
                    if not stream or answer.status_code not in BUSY:
                        raise UnreadError(why)
                else:
                    # A blank line says that the agent is still at work.
                    for line in filter(None, answer.iter_lines()):
                        event = json.loads(line)
                        stream, last = event.get("stream", stream), event["id"]
                        waited, seconds = 0.0, FIRST
                        yield event
                        if event["type"] == "complete":
                            return
        except httpx.TransportError as error:
            why = str(error) or type(error).__name__
        if not stream:
            # Whether the question has begun is not known, and to ask it again may cost a model twice.
            raise UnreadError(f"the service is away ({why})")
        if waited >= AWAY:
            raise UnreadError(f"the service has been away for {waited:g} seconds ({why})")
        pause(seconds)
        waited, seconds = waited + seconds, min(2 * seconds, LONGEST)


def main(url: str, client: str, project: str, question: str, *, pause: Callable[[float], None] = time.sleep) -> int:
    """Exit status 1 where there is no answer."""
    token = os.environ.get("JERVIS_KB_TOKEN", "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    outcome = ""
    # A line, or a blank one, comes every 15 seconds.
    with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
        try:
            for event in events(http, {"clientId": client, "projectId": project}, question, pause):
                if event["type"] == "token":
                    sys.stdout.write(event["content"])
                    sys.stdout.flush()
                elif event["type"] == "decision":
                    sys.stderr.write(f"{event['tool']}: {event['reasoning']}\n")
                elif event["type"] in ("status", "error"):
                    sys.stderr.write(f"  {event['message']}\n")
                elif event["type"] == "complete":
                    outcome = event["outcome"]
                    cited = [f"[{one['ref']}] {one['title']} {one['sourceUrn']}" for one in event.get("citations", [])]
                    sys.stdout.write("\n".join(["", *cited, ""]))
        except UnreadError as error:
            sys.stderr.write(f"\nThe answer cannot be read: {error}\n")
    return 0 if outcome == "answered" else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
