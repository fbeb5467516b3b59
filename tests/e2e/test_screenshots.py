"""One mail twice with other words in its screenshot: they decide the phase, and a question is answered from them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx

from crds.phases import Phase
from hack.demo import inputs, report, submit
from tests import thorough
from tests.e2e.site import Site
from text import mail

pytestmark = thorough.only


def test_the_words_of_a_screenshot_decide_and_become_knowledge(site: Site, owner: str, services: httpx.Client) -> None:
    # A client of its own: what other tests ingest may speak of anything.
    owner = f"{owner}-screenshots"
    shots = inputs.screenshots(site.wanted.checkout, datetime.now(UTC))
    specs: dict[str, dict[str, Any]] = {}
    for shot in shots:
        [picture] = mail.read(shot.message).files
        stored = services.post(
            "/jervis-kb-write:8080/proxy/api/v1/content",
            params={"clientId": owner},
            content=picture.body,
            headers={"Content-Type": picture.media_type},
        )
        assert stored.status_code == 201, stored.text
        attached = {"name": picture.name, "mediaType": picture.media_type, "contentRef": stored.json()}
        specs[shot.name] = {**submit.spec(shot), "attachments": [attached]}
    site.apply("screenshots", specs, owner)
    ended = site.ends("screenshots", {shot.name: shot.expected for shot in shots})
    for task in ended.values():
        conditions = {one.type: one.status for one in task.status.conditions}
        assert conditions.get("AttachmentsIngested") == "True", task.metadata.name
    route = ended["mail-backup-failed"].status.route
    assert route is not None
    assert route.hints is not None
    assert route.hints.suggested_deadline is not None
    assert route.hints.suggested_deadline.date() == inputs.deadline(datetime.now(UTC))
    asked = {"type": "UserInputProcessing", "mode": "Foreground", "content": report.PICTURED}
    site.apply("screenshots", {"asked-screenshot": asked}, owner)
    answered = site.ends("screenshots", {"asked-screenshot": Phase.COMPLETED})["asked-screenshot"]
    assert answered.status.result is not None
    assert "archive-2" in answered.status.result.summary
