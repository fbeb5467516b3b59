"""What a namespace may have, as the operator sees it: the same answers as those of the chart's policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from controllers import admission, settings
from crds.flags import Flag
from crds.pendingtask import NotAllowed
from tests.controllers import build
from tests.controllers.build import present

MARKED = {"jervis.dev/clients": "acme, beta", "jervis.dev/modes": "Background"}
CHART = """
limits: {types: [], clients: [shared], modes: [], queuePosition: true}
namespaces:
  listed: {clients: [acme], modes: [Background], queuePosition: 1000, types: [EmailProcessing, UserInputProcessing]}
  open: {clients: [], modes: []}
  never-first: {clients: [acme], queuePosition: false}
"""


def judge(annotations: Mapping[str, Mapping[str, str] | None]) -> admission.Admission:
    return present(settings.Settings.model_validate({"admission": CHART}).admitted(annotations.get))


def reason(known: admission.Admission, namespace: str, **spec: Any) -> NotAllowed | None:
    found = known.refuses(build.task(spec=spec, namespace=namespace))
    return None if found is None else found.reason


@pytest.mark.parametrize(
    ("namespace", "annotations", "spec", "refused"),
    [
        ("listed", {}, {"clientId": "acme"}, None),
        ("listed", {}, {"clientId": "victim"}, NotAllowed.CLIENT),
        ("listed", {"jervis.dev/clients": "victim"}, {"clientId": "victim"}, NotAllowed.CLIENT),
        ("listed", {}, {"clientId": "acme", "mode": "Foreground"}, NotAllowed.MODE),
        ("listed", {}, {"clientId": "acme", "type": "UserInputProcessing"}, NotAllowed.MODE),
        ("listed", {}, {"clientId": "acme", "type": "ScheduledTask"}, NotAllowed.TYPE),
        ("listed", {}, {"clientId": "acme", "queuePosition": 999}, NotAllowed.POSITION),
        ("listed", {}, {"clientId": "acme", "queuePosition": 1000}, None),
        ("never-first", {}, {"clientId": "acme", "queuePosition": 1_000_000}, NotAllowed.POSITION),
        ("open", {}, {"clientId": "anybody", "mode": "Foreground", "queuePosition": 1}, None),
        ("open", MARKED, {"clientId": "anybody", "mode": "Foreground"}, None),
        ("other", {}, {"clientId": "shared", "mode": "Foreground"}, None),
        ("other", {}, {"clientId": "acme"}, NotAllowed.CLIENT),
        ("other", MARKED, {"clientId": "beta"}, None),
        ("other", MARKED, {"clientId": "shared"}, NotAllowed.CLIENT),
        ("other", MARKED, {"clientId": "beta", "mode": "Foreground"}, NotAllowed.MODE),
        ("other", {"jervis.dev/clients": ""}, {"clientId": "shared"}, NotAllowed.CLIENT),
        ("other", None, {"clientId": "shared"}, NotAllowed.UNKNOWN),
        ("listed", None, {"clientId": "acme"}, None),
    ],
    ids=lambda value: str(value)[:50],
)
def test_the_order_of_the_limits_is_that_of_the_policies(
    namespace: str, annotations: Mapping[str, str] | None, spec: dict[str, Any], refused: NotAllowed | None
) -> None:
    """admission.namespaces, then the annotation, then admission.limits. An unread namespace allows nothing."""
    assert reason(judge({namespace: annotations}), namespace, **spec) is refused


def test_a_refusal_names_field_and_remedy() -> None:
    known = judge({"other": MARKED})
    told = present(known.refuses(build.task(spec={"clientId": "victim"}, namespace="other")))
    assert told.message == (
        "spec.clientId: victim is not a client of namespace other; create it anew with one of [acme, beta], or ask for"
        " it in the chart value admission.namespaces or the annotation jervis.dev/clients of the namespace."
    )
    told = present(known.refuses(build.task(spec={"clientId": "acme", "mode": "Foreground"}, namespace="other")))
    assert told.message.startswith("spec.mode: Foreground is not for namespace other; use mode Background, or ask")
    told = known.refuses(build.task(spec={"clientId": "acme", "type": "UserInputProcessing"}, namespace="other"))
    assert told is not None
    assert told.message.startswith("spec.type: UserInputProcessing is always Foreground, which is not for namespace")


def test_a_client_alone_is_judged_for_connections_and_outcomes() -> None:
    known = judge({"other": MARKED})
    assert known.refuses_client("other", "acme") is None
    found = present(known.refuses_client("other", "victim"))
    assert found.reason is NotAllowed.CLIENT


def test_without_the_chart_s_limits_there_are_none() -> None:
    assert settings.Settings().admitted(lambda _: MARKED) is None


def test_the_limits_of_the_chart_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JERVIS_OPERATOR_ADMISSION", '{"limits": {"clients": ["a"]}, "namespaces": {"n": {"mode": []}}}')
    with pytest.raises(settings.Invalid, match=r"JERVIS_OPERATOR_ADMISSION.namespaces.n.mode: Extra inputs"):
        settings.read()
    monkeypatch.setenv("JERVIS_OPERATOR_ADMISSION", '{"limits": {"clients": ["a"], "queuePosition": 1000000}}')
    known = present(settings.read().admitted(lambda _: {}))
    assert reason(known, "n", clientId="a", queuePosition=999_999) is NotAllowed.POSITION
    assert reason(known, "n", clientId="b") is NotAllowed.CLIENT


def test_a_task_chooses_flags_where_a_limit_permits_it() -> None:
    chart = "{limits: {}, namespaces: {open: {taskFlags: true}}}"
    known = settings.Settings.model_validate({"admission": chart}).admitted(lambda _: {})
    said = {"jervis.dev/use-dag-execution": "true"}
    permitted = admission.flags_of(known, build.task(namespace="open", annotations=said))
    assert (dict(permitted.values), permitted.ignored) == ({Flag.DAG_EXECUTION: True}, ())
    for found in (known, None):
        refused = admission.flags_of(found, build.task(namespace="other", annotations=said))
        assert (dict(refused.values), len(refused.ignored)) == ({}, 1)
