"""The policies as objects: equal to the operator's table, bound to the release's namespaces, and never in the way."""

from __future__ import annotations

import pytest

from controllers.pendingtask import phases
from crds import pendingtask
from crds.phases import TERMINAL, Phase
from hack.chart import admission
from tests.chart import rendering
from tests.chart.admission import callers
from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART, Chart, Manifest

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
HOME_ONLY = {"jobs", "run-jobs", "run-pods", "run-tokens"}
"""About runs, which live in the release's namespace."""
EVERYWHERE = {"namespace-limits"}
"""About Namespaces, which are judged before they are served."""
ALWAYS = {
    "pendingtask-status", "pendingtask-spec", "pendingtask-limits", "connection-limits", "connections-files", "tickets",
    "infrastructure-status",
    *HOME_ONLY, *EVERYWHERE,
}  # fmt: skip


def test_the_chart_carries_the_operators_table() -> None:
    assert admission.TARGET.read_text() == admission.rules(), "run `python -m hack.chart`"
    listed = admission.rules().partition("{\n  'New'")[0:3]
    assert "".join(listed).count("': [") == len(Phase)
    for source, targets in phases.TRANSITIONS.items():
        reached = phases.reach(source)
        assert targets <= reached
        assert f"'{source}': [{', '.join(repr(str(t)) for t in sorted(reached))}]" in admission.rules()


def test_a_new_field_of_the_spec_has_to_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "STEERING", (*admission.STEERING, "colour"))
    with pytest.raises(admission.UndecidedError, match=r"spec\.colour: decide in hack/chart/admission\.py"):
        admission.rules()


def test_a_task_without_a_phase_is_new() -> None:
    """The policies read an absent phase as New, and so does the operator."""
    assert pendingtask.Status().phase is None
    assert not phases.TRANSITIONS.keys() - set(Phase)
    assert not any(phases.TRANSITIONS[phase] for phase in TERMINAL)
    assert callers.steps(Phase.READY_FOR_QUALIFICATION) == [Phase.READY_FOR_QUALIFICATION]


def named(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {key.lstrip("/"): found for key, found in rendering.of_kind(manifests, kind).items()}


def test_every_policy_is_bound_to_the_namespaces_that_it_is_about(manifests: list[Manifest]) -> None:
    policies, bindings = named(manifests, POLICY), named(manifests, BINDING)
    assert {name.rpartition(".")[2] for name in policies} >= ALWAYS
    assert policies.keys() == bindings.keys()
    deployments = rendering.of_kind(manifests, "Deployment")
    watched = next(v for k, v in deployments.items() if k.endswith("-operator"))
    served = watched["spec"]["template"]["spec"]["containers"][0]["args"]
    for name, binding in bindings.items():
        spec = binding["spec"]
        assert spec["policyName"] == name
        assert spec["validationActions"] == ["Deny"]
        assert policies[name]["spec"]["failurePolicy"] == "Fail"
        if name.rpartition(".")[2] in EVERYWHERE:
            assert "matchResources" not in spec
            continue
        (expression,) = spec["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert (expression["key"], expression["operator"]) == ("kubernetes.io/metadata.name", "In")
        home = watched["metadata"]["namespace"]
        every = [flag.removeprefix("--namespace=") for flag in served]
        assert expression["values"] == ([home] if name.rpartition(".")[2] in HOME_ONLY else every)


def test_namespaces_that_are_chosen_by_labels_are_bound_as_well(chart: Chart) -> None:
    labels = "watchNamespaceSelector.matchLabels.team=yes,admission.namespaces.team-a.clients={acme}"
    rendered = chart.render("--set", labels)
    policies, bindings = named(rendered, POLICY), named(rendered, BINDING)
    by_label = {name.removesuffix("-by-label"): one for name, one in bindings.items() if name.endswith("-by-label")}
    assert by_label.keys() == {name for name in policies if name.rpartition(".")[2] not in HOME_ONLY | EVERYWHERE}
    assert bindings.keys() == policies.keys() | {f"{name}-by-label" for name in by_label}
    for name, binding in by_label.items():
        assert binding["spec"]["policyName"] == name
        assert binding["spec"]["validationActions"] == ["Deny"]
        assert binding["spec"]["matchResources"] == {"namespaceSelector": {"matchLabels": {"team": "yes"}}}


def test_every_rule_has_a_message_and_a_reason(manifests: list[Manifest]) -> None:
    rules = [rule for policy in named(manifests, POLICY).values() for rule in policy["spec"]["validations"]]
    assert len(rules) >= 11
    for rule in rules:
        assert rule["reason"] in ("Forbidden", "Invalid")
        said = rule.get("messageExpression") or rule["message"]
        assert "\n" not in said
        assert ": " in said
        assert "; " in said


def test_releases_never_share_a_name(chart: Chart) -> None:
    """Also where the pieces of the names could be read either way."""
    one = chart.render("--set", "fullnameOverride=b-c", namespace="a")
    other = chart.render("--set", "fullnameOverride=c", namespace="a-b")
    for kind in (POLICY, BINDING):
        assert len(named(one, kind)) == len(ALWAYS)
        assert not named(one, kind).keys() & named(other, kind).keys()


def test_it_can_be_switched_off(chart: Chart) -> None:
    off = chart.render("--set", "admission.enabled=false,admission.quota.enabled=true")
    assert not [m for m in off if m["kind"] in (POLICY, BINDING, "ResourceQuota")]


def test_quotas(chart: Chart) -> None:
    assert not rendering.of_kind(chart.render(), "ResourceQuota")
    quotas = rendering.of_kind(
        chart.render(
            "--set", "watchNamespaces={team-a}", "--set", "admission.quota.enabled=true",
            "--set", "admission.quota.pendingTasks=2000000,admission.namespaces.team-a.pendingTasks=7",
        ),
        "ResourceQuota",
    )  # fmt: skip
    hard = {key: quota["spec"]["hard"] for key, quota in quotas.items()}
    assert hard == {
        "jervis/jervis-admission": {"count/pendingtasks.jervis.dev": "2000000"},
        "team-a/jervis-admission": {"count/pendingtasks.jervis.dev": "7"},
    }


@pytest.mark.apiserver
def test_they_come_and_go_with_their_release(release: Cluster) -> None:
    """Off, on and away again, beside a release that keeps its own."""

    def installed() -> list[str]:
        return sorted(m["metadata"]["name"] for kind in (POLICY, BINDING) for m in release.items(kind))

    before = installed()
    assert len(before) == 2 * (len(ALWAYS) + 2)  # with both lists of hosts
    release.kubectl("create", "namespace", "admission-second")
    install = ("upgrade", "--install", "jervis", str(CHART), "-n", "admission-second", "--set", "crds.enabled=false")
    release.helm(*install, "--set", "admission.enabled=false")
    assert installed() == before
    release.helm(*install)
    assert len(installed()) == len(before) + 2 * len(ALWAYS)
    release.helm("uninstall", "jervis", "-n", "admission-second")
    assert installed() == before
