"""What the apiserver refuses by itself, with no operator running, and the other side of every bound: what it takes.

The tables are in rejections/*.yaml.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from crds import GROUP, VERSION, pendingtask
from crds import permits as permits_of
from tests.crds.tables import expand, merge

pytestmark = pytest.mark.apiserver


def manifest(kind: str, **spec: Any) -> dict[str, Any]:
    metadata = {"generateName": "accepted-"}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, "spec": spec}


def task(**spec: Any) -> dict[str, Any]:
    return manifest("PendingTask", **{"type": "EmailProcessing", "clientId": "acme", "content": "x", **spec})


@pytest.mark.parametrize(
    "cron",
    [
        "*/15 8-18 * * mon-fri",
        "0 7 L * *",
        "0 0 1 JAN *",
        "5,35 * * * *",
        "0 6 * * 5#2",
        "59 23 31 12 7",
        "0  9  *  *  1",
    ],
)
def test_cron(cron: str, custom_objects: client.CustomObjectsApi) -> None:
    schedule = {"cron": cron, "timeZone": "America/Argentina/Buenos_Aires"}
    stored = create(custom_objects, task(type="ScheduledTask", schedule=schedule))
    assert stored["spec"]["schedule"]["cron"] == cron


@pytest.mark.parametrize("content", ["x" * 32768, "ř" * 16384, "a\n\nb"])
def test_content_up_to_the_bound(content: str, custom_objects: client.CustomObjectsApi) -> None:
    assert create(custom_objects, task(content=content))["spec"]["content"] == content


def test_defaults_are_filled_in(custom_objects: client.CustomObjectsApi) -> None:
    spec = create(custom_objects, task())["spec"]
    assert (spec["mode"], spec["suspend"], spec["projectId"]) == ("Background", False, "")
    stored = create(custom_objects, manifest("GpuBackend", url="http://[fd00::7]:11434"), "gpubackends")["spec"]
    assert stored["reservation"] == {"maxSeconds": 1800, "idleReleaseSeconds": 300}
    assert (stored["kind"], stored["numParallel"], stored["maxLoadedModels"]) == ("GPU", 1, 3)


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1:11434", "http://198.18.0.7", "http://127.0.0.1:11434/base", "http://172.31.255.254:1?x",
        "http://gpu-0:11434", "http://GPU-0.lab.example.com", "http://gpu7", "http://0xa9.example", "http://1e100.net",
        "http://169.254.example.com", "http://[::1]:11434", "http://[fd12:3456::7]:11434", "http://[2001:db8::a9fe:a9fe]",
        "https://metadata.example.com", "http://100.100.100.201",
    ],
)  # fmt: skip
def test_addresses_of_servers(url: str, custom_objects: client.CustomObjectsApi) -> None:
    assert create(custom_objects, manifest("GpuBackend", url=url), "gpubackends")["spec"]["url"] == url


@pytest.mark.parametrize("url", ["http://v1", "http://v1:8000/", "http://gate.example.com/v1/team"])
def test_an_openai_server_may_be_called_v1(url: str, custom_objects: client.CustomObjectsApi) -> None:
    stored = create(custom_objects, manifest("GpuBackend", url=url, engine="OpenAI"), "gpubackends")
    assert stored["spec"]["url"] == url


def test_permits(custom_objects: client.CustomObjectsApi) -> None:
    permits = [
        {
            "tool": "sendMail",
            "connection": "team-mailbox",
            "targets": ["ann@example.com", "*@example.com"],
            "most": 1000,
        },
        {"tool": "mcp:crm.add_note", "notBefore": "2026-12-04T09:00:00+01:00", "notAfter": "2026-12-04T08:00:01Z"},
        {"tool": "pushBranch", "targets": ["*a" * 8], "mayShare": True},
        *({"tool": "editPage", "targets": ["p" * 320] * 32} for _ in range(29)),
    ]
    stored = create(custom_objects, task(permits=permits))["spec"]["permits"]
    assert len(stored) == 32
    assert (stored[1]["most"], stored[1]["mayShare"], stored[0]["most"]) == (1, False, 1000)
    # An operator reads what the apiserver took.
    read = pendingtask.Spec.model_validate(task(permits=permits)["spec"]).permits
    assert [permits_of.parse(permits_of.text(permit)) for permit in read[:3]] == list(read[:3])


def test_an_approval_of_as_many_effects_as_a_request_may_have(custom_objects: client.CustomObjectsApi) -> None:
    effects = [{"id": f"r1.d{n}/0", "verdict": "Approved", "arguments": "{}" + "x" * 500} for n in range(63)]
    effects.append({"id": "i" * 253, "verdict": "Rejected", "comment": "c" * 2048})
    approval = {"verdict": "Approved", "forTask": True, "effects": effects}
    assert len(create(custom_objects, task(approval=approval))["spec"]["approval"]["effects"]) == 64


def test_messages_may_be_added(custom_objects: client.CustomObjectsApi) -> None:
    stored = create(custom_objects, task(messages=[{"id": "m1", "text": "one"}]), dry_run=False)
    stored["spec"]["messages"].append({"id": "m2", "text": "two"})
    name = stored["metadata"]["name"]
    changed: Any = custom_objects.replace_namespaced_custom_object(
        GROUP, VERSION, "default", "pendingtasks", name, stored, field_validation="Strict"
    )
    assert [message["id"] for message in changed["spec"]["messages"]] == ["m1", "m2"]


@pytest.mark.parametrize("field", ["messages", "answers"])
def test_a_conversation_has_an_end_that_names_the_way_on(field: str, custom_objects: client.CustomObjectsApi) -> None:
    entries = [{"id": f"e{number}", "text": "x"} for number in range(65)]
    assert len(create(custom_objects, task(**{field: entries[:64]}))["spec"][field]) == 64
    with pytest.raises(client.ApiException) as refused:
        create(custom_objects, task(**{field: entries}))
    assert refused.value.status == 422
    assert "at most 64 entries; go on in a new PendingTask with the same correlationId" in str(refused.value.body)


def test_a_status_is_owned_as_a_whole_and_changed_in_parts(custom_objects: client.CustomObjectsApi) -> None:
    name = create(custom_objects, task(), dry_run=False)["metadata"]["name"]
    for status in ({"phase": "Qualifying", "attempt": 1}, {"phase": "ReadyForGpu"}):
        stored: Any = custom_objects.patch_namespaced_custom_object_status(
            GROUP, VERSION, "default", "pendingtasks", name, {"status": status}
        )
    assert (stored["status"]["phase"], stored["status"]["attempt"]) == ("ReadyForGpu", 1)
    owned = [one["fieldsV1"] for one in stored["metadata"]["managedFields"] if one.get("subresource") == "status"]
    assert owned == [{"f:status": {}}]


def test_a_public_git_repository_needs_no_secret(custom_objects: client.CustomObjectsApi) -> None:
    connection = manifest("Connection", type="Git", clientId="acme", url="https://git.example.org/a/b.git")
    assert create(custom_objects, connection, "connections")["spec"]["pollInterval"] == "5m"


def test_fields_can_be_selected(custom_objects: client.CustomObjectsApi) -> None:
    create(custom_objects, task(clientId="selected"), dry_run=False)
    found: Any = custom_objects.list_namespaced_custom_object(
        GROUP, VERSION, "default", "pendingtasks", field_selector="spec.clientId=selected,spec.type=EmailProcessing"
    )
    assert len(found["items"]) == 1


def create(
    api: client.CustomObjectsApi, manifest: dict[str, Any], plural: str = "pendingtasks", *, dry_run: bool = True
) -> dict[str, Any]:
    options: dict[str, Any] = {"dry_run": "All"} if dry_run else {}
    stored: Any = api.create_namespaced_custom_object(
        GROUP, VERSION, "default", plural, manifest, field_validation="Strict", **options
    )
    return dict(stored)


TABLES = sorted((Path(__file__).parent / "rejections").glob("*.yaml"))


def cases() -> Iterator[Any]:
    for path in TABLES:
        table = yaml.safe_load(path.read_text())
        for case in table["cases"]:
            yield pytest.param(table["plural"], table["base"], expand(case), id=f"{path.stem}-{case['id']}")


def test_the_table_is_as_long_as_promised() -> None:
    assert sum(1 for _ in cases()) >= 60


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_base_is_accepted(path: Path, custom_objects: client.CustomObjectsApi) -> None:
    table = yaml.safe_load(path.read_text())
    custom_objects.create_namespaced_custom_object(
        GROUP, VERSION, "default", table["plural"], table["base"], dry_run="All", field_validation="Strict"
    )


@pytest.mark.parametrize(("plural", "base", "case"), list(cases()))
def test_refused(
    plural: str, base: dict[str, Any], case: dict[str, Any], custom_objects: client.CustomObjectsApi
) -> None:
    wrong = merge(copy.deepcopy(base), case["set"])
    if "then" not in case:
        with pytest.raises(client.ApiException) as refusal:
            custom_objects.create_namespaced_custom_object(
                GROUP, VERSION, "default", plural, wrong, dry_run="All", field_validation="Strict"
            )
    else:
        name = wrong["metadata"]["name"] = f"case-{case['id']}"
        stored = custom_objects.create_namespaced_custom_object(GROUP, VERSION, "default", plural, wrong)
        try:
            with pytest.raises(client.ApiException) as refusal:
                custom_objects.replace_namespaced_custom_object(
                    GROUP, VERSION, "default", plural, name, merge(stored, case["then"]), field_validation="Strict"
                )
        finally:
            custom_objects.delete_namespaced_custom_object(GROUP, VERSION, "default", plural, name)
    assert refusal.value.status in (400, 422)
    message = json.loads(refusal.value.body or "{}")["message"]
    assert case["field"] in message
    assert case["says"] in message
