"""The Secret of a Connection as protocols are given it: text, with an access token where OAuth makes one."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import kube
from crds import values
from sources.core import port, redact


class AccessTokens(Protocol):
    """What makes an access token of a Secret for OAuth (`sources.oauth.tokens`)."""

    async def fresh(self, of: tuple[str, str], values: Mapping[str, str]) -> dict[str, str]:
        """The values of the Secret `of` (namespace, name), with a token under `port.ACCESS_KEY` where it is one of
        OAuth."""
        ...

    def forget(self, of: tuple[str, str]) -> None:
        """The source refuses the token: the next one is had anew."""
        ...


class Reader:
    """`api` may read the Secrets of Connections; `hidden` learns what must not be shown. Without `access` no Secret
    is one of OAuth."""

    def __init__(
        self, api: kube.Kube, access: AccessTokens | None = None, hidden: redact.Secrets | None = None
    ) -> None:
        self._api, self._access = api, access
        self._hidden = hidden or redact.Secrets()

    async def read(self, namespace: str, reference: values.SecretRef | None) -> dict[str, str]:
        """The values by their keys, none without a reference. One whose key is named has a token and no OAuth. Raises
        `Rejected`, `Misconfigured`, or `crds.errors.Operational`."""
        if reference is None:
            return {}
        try:
            secret = await self._api.get(kube.SECRETS, namespace, reference.name)
        except (kube.NotFound, kube.Forbidden) as error:
            raise port.Misconfigured(
                f"Secret {reference.name!r} of namespace {namespace!r} cannot be read: {error.message}",
                field="spec.secretRef",
                remedy="Create it, and add its name to rbac.connectionSecrets of the chart.",
            ) from error
        read = _decoded(secret.get("data") or {})
        # Only OAuth makes one, so that it is never taken for a password of a person.
        read.pop(port.ACCESS_KEY, None)
        self._hidden.keep(read)
        if self._access is None or reference.key:
            return read
        fresh = await self._access.fresh((namespace, reference.name), read)
        self._hidden.keep(fresh)
        return fresh

    def refused(self, namespace: str, reference: values.SecretRef | None) -> None:
        """The source refuses them: an access token is had anew for the next call."""
        if self._access is not None and reference is not None:
            self._access.forget((namespace, reference.name))

    def hidden(self, text: str) -> str:
        """The text without the values of all Secrets that were read."""
        return self._hidden.hidden(text)


def _decoded(data: Mapping[str, str]) -> dict[str, str]:
    """The values of a Secret that are text."""
    texts = {}
    for key, value in data.items():
        with suppress(ValueError):
            texts[key] = base64.b64decode(value).decode()
    return texts
