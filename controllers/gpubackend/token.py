"""The bearer token for a server behind authentication: in the Secret that `spec.secretRef` names, under its `key`, or
under `token` when it names none.

The router reads the same Secret (`router.backends.secrets`): both may read those that the chart value
`router.backendSecrets` lists, in the release's namespace, and no others.
"""

from __future__ import annotations

import base64
import binascii

import kube
from controllers.gpubackend.probe import Failure
from crds import gpubackend

USUAL_KEY = "token"


async def read(api: kube.Kube, backend: gpubackend.GpuBackend) -> str | Failure:
    """The token, "" for a server that needs none, or why there is none. Raises when the apiserver is away."""
    reference, namespace = backend.spec.secret_ref, backend.metadata.namespace
    if reference is None:
        return ""
    name, key = reference.name, reference.key or USUAL_KEY
    try:
        raw = await api.get(kube.SECRETS, namespace, name)
    except kube.NotFound:
        text = f"Secret {name!r} does not exist in namespace {namespace!r}. Create it, or correct spec.secretRef.name."
        return Failure("SecretNotFound", text)
    except kube.Forbidden:
        text = f"The operator may not read Secret {name!r}. Add it to router.backendSecrets of the chart."
        return Failure("SecretNotReadable", text)
    try:
        return base64.b64decode(raw["data"][key], validate=True).decode("ascii").strip()
    except (KeyError, TypeError, binascii.Error, UnicodeDecodeError):
        text = f"Secret {name!r} of spec.secretRef has no ASCII text under key {key!r}. Put the bearer token there."
        return Failure("SecretKeyMissing", text)
