"""A ServiceAccount with Roles in some namespaces, as the chart gives the operator; policies; a namespace that ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from tests.operator.conftest import Space
from tests.waiting import until

ACCOUNT = "operator"
RULES: list[dict[str, Any]] = [
    {"apiGroups": ["jervis.dev"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
]


class Account:
    """In `home`; it may do nothing until `allow` is called for a namespace."""

    def __init__(self, api: Any, home: str) -> None:
        self._core: Any = client.CoreV1Api(api)
        self._rbac: Any = client.RbacAuthorizationV1Api(api)
        self._home = home
        self._core.create_namespaced_service_account(
            home, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name=ACCOUNT))
        )

    def kubeconfig(self, admin: Path, to: Path) -> Path:
        """Write one with a token of the account instead of the administrator's certificate."""
        wanted = client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(audiences=None, expiration_seconds=3600)
        )
        made = self._core.create_namespaced_service_account_token(ACCOUNT, self._home, wanted)
        document = yaml.safe_load(admin.read_text())
        document["users"][0]["user"] = {"token": made.status.token}
        to.write_text(yaml.safe_dump(document))
        return to

    def allow(self, namespace: str, rules: list[dict[str, Any]] = RULES) -> None:
        """A Role and its RoleBinding there."""
        self._rbac.create_namespaced_role(namespace, {"metadata": {"name": ACCOUNT}, "rules": rules})
        self._rbac.create_namespaced_role_binding(namespace, self._binding("Role"))

    def allow_tokens(self, namespace: str) -> None:
        """The right to write the tokens of runs there."""
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "update"]}]
        self._rbac.create_namespaced_role(namespace, {"metadata": {"name": "tokens"}, "rules": rules})
        binding = self._binding("Role", "tokens")
        self._rbac.create_namespaced_role_binding(namespace, binding)

    def allow_everywhere(self, name: str) -> None:
        """A ClusterRole and its binding, with the right to watch Namespaces."""
        namespaces = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}
        self._rbac.create_cluster_role({"metadata": {"name": name}, "rules": [*RULES, namespaces]})
        self._rbac.create_cluster_role_binding(self._binding("ClusterRole", name))

    def change(self, namespace: str, rules: list[dict[str, Any]]) -> None:
        """Other rules in the Role that is there."""
        self._rbac.patch_namespaced_role(ACCOUNT, namespace, {"rules": rules})

    def forbid(self, namespace: str) -> None:
        """Take the RoleBinding away."""
        self._rbac.delete_namespaced_role_binding(ACCOUNT, namespace)

    def _binding(self, kind: str, name: str = ACCOUNT) -> dict[str, Any]:
        return {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": self._home}],
        }


@contextmanager
def policy(
    space: Space, rule: dict[str, Any], validation: dict[str, Any], refuses: Callable[[], bool]
) -> Iterator[None]:
    """A foreign admission policy for this namespace. `refuses`: whether it is in force."""
    admission: Any = client.AdmissionregistrationV1Api(space.api)
    named = {"metadata": {"name": space.name}}
    spec = {"matchConstraints": {"resourceRules": [{"apiVersions": ["*"], **rule}]}, "validations": [validation]}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}}}
    bound = {"policyName": space.name, "validationActions": ["Deny"], "matchResources": here}
    admission.create_validating_admission_policy({**named, "spec": spec})
    admission.create_validating_admission_policy_binding({**named, "spec": bound})
    try:
        until(refuses, "the policy is in force")
        yield
    finally:
        admission.delete_validating_admission_policy_binding(space.name)
        admission.delete_validating_admission_policy(space.name)


def permit(api: Any, namespace: str, user: str, *rules: dict[str, Any]) -> None:
    """Rights of a user in this namespace and in no other, as the chart gives them."""
    rbac: Any = client.RbacAuthorizationV1Api(api)
    group, named = "rbac.authorization.k8s.io", {"metadata": {"name": f"{user}-more"}}
    rbac.create_namespaced_role(namespace, {**named, "rules": list(rules)})
    role = {"apiGroup": group, "kind": "Role", "name": f"{user}-more"}
    subject = {"apiGroup": group, "kind": "User", "name": user}
    rbac.create_namespaced_role_binding(namespace, {**named, "roleRef": role, "subjects": [subject]})


def end(api: Any, namespace: str) -> None:
    """`kubectl delete namespace` to its end, in the worst order: the rights go first, then the objects."""
    core: Any = client.CoreV1Api(api)
    core.delete_namespace(namespace)
    rbac: Any = client.RbacAuthorizationV1Api(api)
    rbac.delete_collection_namespaced_role_binding(namespace)
    rbac.delete_collection_namespaced_role(namespace)
    objects: Any = client.CustomObjectsApi(api)
    for plural in ("pendingtasks", "connections", "gpubackends"):
        objects.delete_collection_namespaced_custom_object("jervis.dev", "v1alpha1", namespace, plural)
    client.BatchV1Api(api).delete_collection_namespaced_job(namespace, propagation_policy="Background")
    core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)
    core.delete_collection_namespaced_service_account(namespace)
    left = core.read_namespace(namespace)
    left.spec.finalizers = []
    core.replace_namespace_finalize(namespace, left)
