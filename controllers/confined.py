"""What the Jobs of the operator have alike: what no pod of theirs may do (as the restricted level of Pod Security asks,
and without a token of the apiserver), one try, and a Secret with the token for our own services.

Pure. Source: kubernetes.io, "Pod Security Standards"; a chart for long-running pods has the same in its templates.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

SECRET_TYPE = "jervis.dev/run-token"  # noqa: S105  # the type of the Secrets that the operator may write
TOKEN_KEY = "token"  # noqa: S105  # the name of a key, no password
DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
"""Rule of a pod failure policy: a pod that was disrupted (eviction, node drain) is replaced."""


def job(
    metadata: Mapping[str, Any], pod: Mapping[str, Any], seconds: int, kept_seconds: int, *, replaced: bool
) -> dict[str, Any]:
    """A Job that tries once, and replaces its pod only if that was disrupted and `replaced` allows it."""
    policy = {"podFailurePolicy": {"rules": [DISRUPTED]}} if replaced else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            **policy,
            "activeDeadlineSeconds": seconds,
            "ttlSecondsAfterFinished": kept_seconds,
            "template": {"metadata": {"labels": metadata["labels"]}, "spec": pod},
        },
    }


def secret(name: str, uid: str, namespace: str, labels: Mapping[str, str], values: Mapping[str, str]) -> dict[str, Any]:
    """The Secret of the Job `uid` of the same name, which owns it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": SECRET_TYPE,
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


def volume(name: str, secret: str, key: str = TOKEN_KEY, path: str = TOKEN_KEY) -> dict[str, Any]:
    """One key of a Secret as a file, which the group of the pod may read."""
    source = {"secretName": secret, "items": [{"key": key, "path": path}], "defaultMode": 0o440}
    return {"name": name, "secret": source}


def pod(account: str, user: int | None, grace_seconds: int = 10) -> dict[str, Any]:
    """Of the spec of a Job's pod. `user` is also its group; None: the image's own, or one that the cluster gives."""
    owned = {} if user is None else {"runAsUser": user, "runAsGroup": user, "fsGroup": user}
    return {
        "restartPolicy": "Never",
        "serviceAccountName": account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds,
        "securityContext": {"runAsNonRoot": True, **owned, "seccompProfile": {"type": "RuntimeDefault"}},
    }


def container(name: str, image: str, pull_policy: str) -> dict[str, Any]:
    """Of one of its containers."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": pull_policy,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
