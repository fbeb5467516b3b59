"""A real Dovecot and a real Gitea: what is put there arrives by itself, once, and what changes there changes here."""

from __future__ import annotations

import sys

from rich.console import Console

from hack.demo import arriving, planted, servers
from tests import thorough
from tests.e2e.site import Site

pytestmark = thorough.only


def test_what_is_at_the_sources_arrives_once_and_follows_them(site: Site, owner: str, there: servers.Servers) -> None:
    # It waits for each task and for each document, and asks who is on call before and after the mail is deleted.
    owner = f"{owner}-connections"
    console = Console(file=sys.stdout, width=160, force_terminal=False)
    shown = arriving.Showing(console, site.kubectl, site.wanted, owner.removeprefix("e2e-"), owner)
    made = shown.show(there)
    assert {urn: len(names) for urn, names in made.items()} == {
        urn: 2 if urn == planted.urn(1) else 1 for urn in planted.stories()
    }
    tasks = [task for task in site.kubectl.tasks() if task.spec.client_id == owner and task.spec.source_urn]
    # Once each, in all the polls until now; the issue that the agent filed arrives like any other.
    planned = [task.metadata.name for task in tasks if task.spec.source_urn in planted.stories()]
    assert sorted(planned) == sorted(name for names in made.values() for name in names)
    assert len(tasks) - len(planned) <= 1
    ready = {
        one["metadata"]["name"]: [each["reason"] for each in one["status"]["conditions"] if each["type"] == "Ready"]
        for one in site.kubectl.items("connections")
    }
    assert ready == {"mailbox": ["Polled"], "issues": ["Polled"], "repository": ["Polled"]}
