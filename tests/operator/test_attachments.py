"""Files that came with a task: in the knowledge base before it is routed, and never in its way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from kb import api
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]


def file(name: str) -> dict[str, Any]:
    ref = {"store": "gridfs", "key": "k1", "sha256": "0" * 64, "bytes": 5}
    return {"name": name, "mediaType": "text/plain", "contentRef": ref}


def told(space: Space, name: str) -> dict[str, Any]:
    [found] = [one for one in space.get(name)["status"]["conditions"] if one["type"] == "AttachmentsIngested"]
    return dict(found)


def test_good_and_bad_files_of_a_mail_and_of_a_question(
    space: Space, start: Start, gpu: str, knowledge: Knowledge
) -> None:
    with Kubelet(space.api, space.name), start():
        space.backend(gpu, slots=4)
        files = [file("plan.txt"), file("INVALID.docm")]
        space.submit("mail", "ASK", attachments=files, sourceUrn="email::<m1@acme.example>")
        space.submit("ask", "What is the plan?", type="UserInputProcessing", mode="Foreground", attachments=files[:1])
        space.submit("none", "INFO")
        until(
            lambda: space.phases() == {"mail": "Completed", "ask": "Completed", "none": "Done"}, "all go on in any case"
        )
        condition = told(space, "mail")
        assert (condition["status"], condition["reason"]) == ("False", "Rejected")
        assert "1 of 2 files" in condition["message"]
        assert "INVALID.docm: the document has macros. Save it." in condition["message"]
        assert told(space, "ask")["status"] == "True"
        assert all(one["type"] != "AttachmentsIngested" for one in space.get("none")["status"]["conditions"])
        sent = sorted((one.attached_to, one.name) for one in knowledge.attached)
        uid = space.get("ask")["metadata"]["uid"]
        assert sent == [
            ("email::<m1@acme.example>", "INVALID.docm"),
            ("email::<m1@acme.example>", "plan.txt"),
            (f"task::{uid}", "plan.txt"),
        ]
        assert api.attached_to(api.attachment_urn(*sent[0])) == "email::<m1@acme.example>"
        assert [one.source_urn for one in knowledge.requests if one.source_urn == f"task::{uid}"] == []
