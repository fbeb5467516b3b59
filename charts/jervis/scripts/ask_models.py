"""Has each role a model that can do its work? Run by `helm test` with the router's URL. A token for it is
in the file that ROUTER_TOKEN_FILE names, if any.

Prints one line per role and backend; fails where something does not happen at all.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

TRIES = 60


def ask(url: str, token: str) -> dict[str, list[dict[str, object]]]:
    """The check of the router; empty while it cannot be had."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:  # noqa: S310  # the chart writes the URL
            found = json.load(answer).get("models", {})
            return found if isinstance(found, dict) else {}
    except urllib.error.HTTPError as error:
        sys.stderr.write(f"{url} answered {error.code}: {error.read(500).decode(errors='replace').strip()}\n")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{url} does not answer: {error}\n")
    return {}


def settled(report: dict[str, list[dict[str, object]]]) -> bool:
    """Whether the router knows about each role: something is there that stays."""
    return bool(report.get("roles")) and all(one["verdict"] in ("Ok", "Less") for one in report["roles"])


url, path = sys.argv[1], os.environ.get("ROUTER_TOKEN_FILE")
token = Path(path).read_text(encoding="utf-8").strip() if path else ""
report: dict[str, list[dict[str, object]]] = {}
for attempt in range(TRIES):
    report = ask(url, token) or report
    if settled(report):
        break
    if attempt + 1 < TRIES:
        time.sleep(1)
for row in report.get("rows", []):
    words = ", ".join(f"{name} {row[name]}" for name in ("window", "tools", "thinking", "vision", "dimensions"))
    sys.stdout.write(f"{row['verdict']:<8} {row['role']:<12} {row['model']} on {row['backend']}: {words}\n")
bad = [one for one in report.get("roles", []) if one["verdict"] == "Stops"]
for one in bad:
    sys.stdout.write(f"STOPS    {one['role']}: {one['problem']}; without it {one['stops']} (docs/models.md)\n")
sys.exit(0 if report.get("roles") and not bad else 1)
