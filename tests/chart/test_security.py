"""Nobody gets more than they need: pods, tokens, images and rights, in every variant."""

from __future__ import annotations

import pytest

from tests.chart import rendering
from tests.chart.rendering import Chart, Manifest

# The service accounts that may talk to the apiserver at all.
TALKERS = {"jervis-operator", "jervis-router", "jervis-sources", "jervis-wait-for-crds"}


def test_every_pod_meets_the_restricted_standard(manifests: list[Manifest]) -> None:
    seen = 0
    for name, pod in rendering.pods(manifests):
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True, name
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for forbidden in ("hostNetwork", "hostPID", "hostIPC"):
            assert forbidden not in pod["spec"], name
        assert all("hostPath" not in volume for volume in pod["spec"].get("volumes", [])), name
        for container in rendering.containers(pod):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["privileged"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["runAsNonRoot"] is True, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
            assert "hostPort" not in str(container.get("ports", [])), name
            seen += 1
    assert seen >= 4


def test_every_container_may_write_to_tmp_and_is_bounded(manifests: list[Manifest]) -> None:
    for name, pod in rendering.pods(manifests):
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        for container in rendering.containers(pod):
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            assert "emptyDir" in volumes[mounts["/tmp"]], name
            assert {"cpu", "memory"} <= set(container["resources"]["requests"]), name
            assert "memory" in container["resources"]["limits"], name


def test_only_these_accounts_hold_a_token(manifests: list[Manifest]) -> None:
    for name, account in rendering.of_kind(manifests, "ServiceAccount").items():
        assert account["automountServiceAccountToken"] is False, name
    for name, pod in rendering.pods(manifests):
        mounted = pod["spec"]["automountServiceAccountToken"]
        assert mounted is (pod["spec"].get("serviceAccountName") in TALKERS), name


def test_images_come_from_values_alone(chart: Chart) -> None:
    digest = "sha256:" + "a" * 64
    rendered = chart.render(
        "--set", "image.repository=registry.test/jervis,image.tag=v9,image.pullPolicy=Always",
        "--set", "simulator.enabled=true,simulator.image.repository=registry.test/fakes",
        "--set", f"simulator.image.digest={digest}", "--set", "imagePullSecrets[0].name=registry",
    )  # fmt: skip
    expected = {"registry.test/jervis:v9", f"registry.test/fakes@{digest}"}
    images = {c["image"] for _, pod in rendering.pods(rendered) for c in rendering.containers(pod)}
    assert images == expected
    for name, pod in rendering.pods(rendered):
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}], name
    environment = rendering.told(rendered, "operator")
    assert environment["JERVIS_OPERATOR_IMAGE"]["value"] == "registry.test/jervis:v9"
    assert environment["JERVIS_OPERATOR_IMAGE_PULL_POLICY"]["value"] == "Always"


def test_a_digest_pins_every_pod_and_the_runs(chart: Chart) -> None:
    digest = "sha256:" + "b" * 64
    rendered = chart.render("--set", f"image.repository=registry.test/jervis,image.tag=v9,image.digest={digest}")
    images = {c["image"] for _, pod in rendering.pods(rendered) for c in rendering.containers(pod)}
    assert images == {f"registry.test/jervis@{digest}"}
    assert rendering.told(rendered, "operator")["JERVIS_OPERATOR_IMAGE"]["value"] == f"registry.test/jervis@{digest}"


def test_the_platform_may_choose_the_user(chart: Chart) -> None:
    for name, pod in rendering.pods(chart.render("--set", "runAsUser=null")):
        assert "runAsUser" not in pod["spec"]["securityContext"], name
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True, name


@pytest.mark.parametrize(("given", "user"), [("null", None), ("1000650000", 1000650000), ("10001", 10001)])
def test_runs_have_the_user_of_the_release(
    chart: Chart, monkeypatch: pytest.MonkeyPatch, given: str, user: int | None
) -> None:
    """OpenShift assigns one for each namespace and refuses every other, so null has to reach the Jobs as well."""
    template = rendering.operator_settings(chart.render("--set", f"runAsUser={given}"), monkeypatch).template()
    assert template.run_as_user == user


def test_no_rule_has_a_wildcard(manifests: list[Manifest]) -> None:
    roles = [m for m in manifests if m["kind"] in ("Role", "ClusterRole")]
    assert len(roles) >= 6
    for role in roles:
        for rule in role["rules"]:
            for field in ("apiGroups", "resources", "verbs", "resourceNames"):
                assert "*" not in "".join(rule.get(field, [])), role["metadata"]["name"]
            assert rule["verbs"], role["metadata"]["name"]
            assert not {"pods/exec", "pods/attach"} & set(rule["resources"]), role["metadata"]["name"]
            # By value, per namespace.
            logs = role["metadata"]["name"] == "jervis-operator-cluster-state"
            assert logs or "pods/log" not in rule["resources"], role["metadata"]["name"]


def test_nothing_of_the_release_is_bound_to_the_whole_cluster(manifests: list[Manifest]) -> None:
    """But for one question that has no namespace: whose token is this?"""
    bound = {m["roleRef"]["name"] for m in manifests if m["kind"] == "ClusterRoleBinding"}
    for role in rendering.of_kind(manifests, "ClusterRole").values():
        if role["metadata"]["name"] in bound:
            (rule,) = role["rules"]
            assert (rule["resources"], rule["verbs"]) == (["tokenreviews"], ["create"])
            continue
        assert any(key.startswith("rbac.authorization.k8s.io/aggregate-to-") for key in role["metadata"]["labels"])


@pytest.mark.parametrize(
    ("arguments", "names"),
    [((), []), (("--set", "rbac.connectionSecrets={imap,jira}"), ["imap", "jira"])],
    ids=["none", "two"],
)
def test_secrets_are_read_by_name_alone(chart: Chart, arguments: tuple[str, ...], names: list[str]) -> None:
    """The tokens of runs are written, in the release's namespace, and never read."""
    rendered = chart.render(*arguments, "--set", "watchNamespaces={team-a}")
    rules = [
        (manifest["metadata"].get("namespace"), rule)
        for manifest in rendered
        if manifest["kind"] in ("Role", "ClusterRole")
        for rule in manifest["rules"]
        if "secrets" in rule["resources"]
    ]
    read = [rule for _, rule in rules if {"get", "list", "watch", "patch"} & set(rule["verbs"])]
    assert [rule["resourceNames"] for rule in read] == ([names, names] if names else [])  # in each watched namespace
    assert all(rule["verbs"] == ["get"] for rule in read)
    assert [(where, rule["verbs"]) for where, rule in rules if rule not in read] == [("jervis", ["create", "update"])]


def test_a_tenants_namespace_holds_nothing_of_the_runs(chart: Chart) -> None:
    rendered = chart.render("--set", "watchNamespaces={team-a},imagePullSecrets[0].name=registry")
    there = [one for one in rendered if one["metadata"].get("namespace") == "team-a"]
    assert sorted((one["kind"], one["metadata"]["name"]) for one in there) == [
        ("Role", "jervis-operator"), ("RoleBinding", "jervis-operator"), ("ServiceAccount", "jervis-history"),
    ]  # fmt: skip
    rules = next(one["rules"] for one in there if one["kind"] == "Role")
    assert {resource for rule in rules for resource in rule["resources"]} == {
        "pendingtasks", "connections", "gpubackends", "pendingtasks/status", "connections/status",
        "gpubackends/status", "events", "namespaces",
    }  # fmt: skip


STATE = "jervis-operator-cluster-state"


@pytest.mark.parametrize(
    ("given", "shown", "logs"),
    [
        ("enabled=false", [], []),
        ("enabled=true", ["team-a", "team-b"], []),
        ("enabled=true,agents.clusterState.logNamespaces={team-b}", ["team-a", "team-b"], ["team-b"]),
        ("enabled=true,agents.clusterState.logNamespaces={*}", ["team-a", "team-b"], ["team-a", "team-b"]),
        ("enabled=true,agents.clusterState.namespaces={jervis}", ["jervis"], []),
    ],
)
def test_the_state_of_a_namespace_is_listed_where_it_is_shown(
    chart: Chart, given: str, shown: list[str], logs: list[str]
) -> None:
    rendered = chart.render("--set", f"watchNamespaces={{team-a,team-b}},agents.clusterState.{given}")
    roles = {key: one for key, one in rendering.of_kind(rendered, "Role").items() if key.endswith(f"/{STATE}")}
    bindings = [key for key in rendering.of_kind(rendered, "RoleBinding") if key.endswith(f"/{STATE}")]
    assert sorted(roles) == sorted(bindings) == [f"{one}/{STATE}" for one in shown]
    found = []
    for key, role in roles.items():
        rules = {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}
        if rules.pop("pods/log", None) == ["get"]:
            found.append(key.partition("/")[0])
        assert set(map(tuple, rules.values())) == {("list",)}
        assert not {"secrets", "configmaps"} & set(rules)
    assert found == logs


def test_operator_and_router_read_the_tokens_of_backends_and_nothing_else(chart: Chart) -> None:
    """In the release's namespace: GpuBackends are used there alone."""
    rendered = chart.render("--set", "router.backendSecrets={gpu-token}", "--set", "watchNamespaces={team-a}")
    roles = rendering.of_kind(rendered, "Role")
    rules = {
        key: rule["resourceNames"]
        for key, role in roles.items()
        for rule in role["rules"]
        if "secrets" in rule["resources"] and "get" in rule["verbs"]
    }
    assert rules == {"jervis/jervis-operator-backend-secrets": ["gpu-token"], "jervis/jervis-router": ["gpu-token"]}
    binding = rendering.of_kind(rendered, "RoleBinding")["jervis/jervis-operator-backend-secrets"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "jervis-operator", "namespace": "jervis"}]


def test_credentials_of_a_connection_are_read_in_its_own_namespace(chart: Chart) -> None:
    rendered = chart.render("--set", "rbac.connectionSecrets={imap},watchNamespaces={team-a}")
    bindings = rendering.of_kind(rendered, "RoleBinding")
    for namespace in ("jervis", "team-a"):
        name = f"{namespace}/jervis-operator-connection-secrets"
        assert rendering.of_kind(rendered, "Role")[name]["rules"][0]["resourceNames"] == ["imap"]
        assert bindings[name]["subjects"][0]["namespace"] == "jervis"


def test_every_watched_namespace_gets_its_own_role(chart: Chart) -> None:
    rendered = chart.render("--set", "watchNamespaces={team-b,team-a,jervis}")
    roles, bindings = rendering.of_kind(rendered, "Role"), rendering.of_kind(rendered, "RoleBinding")
    for namespace in ("jervis", "team-a", "team-b"):
        assert f"{namespace}/jervis-operator" in roles
        binding = bindings[f"{namespace}/jervis-operator"]
        subject = {"kind": "ServiceAccount", "name": "jervis-operator", "namespace": "jervis"}
        assert binding["subjects"] == [subject]
    runners = [key for key in rendering.of_kind(rendered, "ServiceAccount") if key.endswith("/jervis-job")]
    assert runners == ["jervis/jervis-job"]
    assert [key for key in roles if key.endswith("/jervis-operator")] == [
        "jervis/jervis-operator", "team-a/jervis-operator", "team-b/jervis-operator",
    ]  # fmt: skip


def test_namespaces_by_label_need_a_cluster_role_and_names_none(chart: Chart) -> None:
    by_name = rendering.of_kind(chart.render("--set", "watchNamespaces={team-a}"), "ClusterRole")
    assert not [name for name in by_name if name.endswith("-operator-labelled")]
    rendered = chart.render("--set", "watchNamespaceSelector.matchLabels.team=yes")
    (role,) = (r for n, r in rendering.of_kind(rendered, "ClusterRole").items() if n.endswith("-operator-labelled"))
    verbs = {verb for rule in role["rules"] if "namespaces" in rule["resources"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    assert not [rule for rule in role["rules"] if "secrets" in rule["resources"] or "leases" in rule["resources"]]
    assert "jervis/jervis-operator" in rendering.of_kind(rendered, "Role")


def test_credentials_of_the_database_stay_in_their_secret(chart: Chart) -> None:
    rendered = chart.render("--set", f"{rendering.DATABASE},mongodb.existingSecret.key=address")
    reference = {"secretKeyRef": {"name": "database", "key": "address"}}
    for deployment, name in (("operator", "JERVIS_OPERATOR_MONGODB_URI"), ("kb", "JERVIS_KB_MONGODB_URI")):
        entry = rendering.told(rendered, deployment)[name]
        assert entry["valueFrom"] == reference
        assert "value" not in entry
