"""Ask the decision agent and print its answer as it comes; a broken connection is taken up again. Needs `httpx`.

    python examples/ask/client.py http://127.0.0.1:8080 acme shop "What is the operating voltage of the pump?"

The token, where the knowledge base asks for one, is read from JERVIS_KB_TOKEN.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import httpx

AWAY = 30
"""Seconds that the agent works on after the connection broke."""


def events(http: httpx.Client, scope: dict[str, str], question: str) -> Iterator[dict[str, Any]]:
    """Every event once, in its order."""
    body = {"scope": scope, "query": question, "resumeSeconds": AWAY}
    stream, last = "", 0
    while True:
        try:
            asking = (
                http.stream("GET", f"/api/v1/agentic_search/{stream}", params={**scope, "after": last})
                if stream
                else http.stream("POST", "/api/v1/agentic_search", json=body)
            )
            with asking as answer:
                answer.read() if answer.is_error else None
                answer.raise_for_status()
                # A blank line says that the agent is still at work.
                for line in filter(None, answer.iter_lines()):
                    event = json.loads(line)
                    stream, last = event.get("stream", stream), event["id"]
                    yield event
                    if event["type"] == "complete":
                        return
        except httpx.TransportError:
            if not stream:
                raise


def main(url: str, client: str, project: str, question: str) -> int:
    """Exit status 1 where there is no answer."""
    token = os.environ.get("JERVIS_KB_TOKEN", "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    outcome = ""
    with httpx.Client(base_url=url, headers=headers, timeout=900) as http:
        for event in events(http, {"clientId": client, "projectId": project}, question):
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
    return 0 if outcome == "answered" else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
