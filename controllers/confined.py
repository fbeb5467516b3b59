"""What no pod of an operator's Job may do: what the restricted level of Pod Security asks for, and no token of its own.

Pure. Source: kubernetes.io, "Pod Security Standards"; a chart for long-running pods has the same in its templates.
"""

from __future__ import annotations

from typing import Any


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
