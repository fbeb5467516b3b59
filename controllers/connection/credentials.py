"""Does the Secret of a Connection hold what its type needs? Names of keys only; values are never read. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controllers import admission
from crds.connection import Spec, Type

ANONYMOUS = frozenset({Type.GIT, Type.MEETING})
"""Types that may do without credentials."""

_LOGIN = frozenset({"username", "password"})
_TOKEN = frozenset({"token"})
_REFRESHED = frozenset({"client_id", "refresh_token"})
_APP = frozenset({"app_id", "installation_id", "private_key"})
_SIGNS = _APP | {"provider", "token_url", "refresh_token"}
"""A Secret with one of these keys is meant for OAuth."""
_APPS = frozenset({Type.GITHUB, Type.GIT})
_WAYS = {
    Type.EMAIL: (_LOGIN,),
    Type.GITHUB: (_TOKEN,),
    Type.GITLAB: (_TOKEN,),
    Type.GIT: (_LOGIN, _TOKEN, frozenset({"ssh-privatekey", "known_hosts"})),
}
_USUAL = (_TOKEN, _LOGIN)


@dataclass(frozen=True, slots=True)
class Finding:
    """`ok` is None where it is unknown; `reason` is CamelCase, `message` a sentence with the remedy.

    `stops`: whatever the credentials are, the Connection is not processed, for this reason.
    """

    ok: bool | None
    reason: str
    message: str
    stops: bool = False


def refused(why: admission.Refusal) -> Finding:
    """Its namespace may not have its client."""
    return Finding(None, why.reason.value, why.message, stops=True)


def unneeded(spec: Spec) -> Finding:
    """Without a secretRef."""
    if spec.type in ANONYMOUS:
        return Finding(True, "NotNeeded", "No secretRef: the source is read without credentials.")
    text = "spec.secretRef is missing; create a Secret with the credentials and name it there."
    return Finding(False, "SecretRefMissing", text)


def absent(name: str, namespace: str, *, field: str = "spec.secretRef") -> Finding:
    """There is no such Secret."""
    text = f"Secret {name!r} does not exist in namespace {namespace!r}; create it there, or correct {field}.name."
    return Finding(False, "SecretNotFound", text)


def unreadable(name: str, namespace: str) -> Finding:
    """The operator has no right to it. The Secret of a Connection is read in the Connection's own namespace."""
    text = (
        f"The operator may not read Secret {name!r} in namespace {namespace!r}, that of the Connection; add its name to"
        " rbac.connectionSecrets of the chart. That holds for each of watchNamespaces; in a namespace that is served by"
        " its labels, apply there what `helm get notes RELEASE` prints."
    )
    return Finding(None, "SecretNotReadable", text)


def of_login(name: str, keys: Iterable[str]) -> Finding:
    """`keys` are those of the Secret for spec.smtp."""
    there = frozenset(keys)
    if there >= _LOGIN:
        return Finding(None, "NotTried", f"Secret {name!r} has the keys; the first mail tries them.")
    if there & _SIGNS:
        return _of_oauth(name, there, Type.EMAIL, "spec.smtp.secretRef")
    text = f"Secret {name!r} lacks 'username' and 'password', which spec.smtp needs; add them, or correct"
    return Finding(False, "SecretKeyMissing", f"{text} spec.smtp.secretRef.")


def of_keys(spec: Spec, keys: Iterable[str]) -> Finding:
    """`keys` are those of the Secret that spec.secretRef names."""
    assert spec.secret_ref is not None
    name, wanted, there = spec.secret_ref.name, spec.secret_ref.key, frozenset(keys)
    if there & _SIGNS and not wanted:
        return _of_oauth(name, there, spec.type, "spec.secretRef")
    ways = (frozenset({wanted}),) if wanted else _WAYS.get(spec.type, _USUAL)
    if any(way <= there for way in ways):
        return Finding(None, "NotTried", f"Secret {name!r} has the keys; no call has tried them yet.")
    needed = " or ".join(" and ".join(repr(key) for key in sorted(way)) for way in ways)
    field = "spec.secretRef.key" if wanted else "spec.secretRef"
    text = f"Secret {name!r} lacks {needed}, which {spec.type.value} needs; add it there, or correct {field}."
    return Finding(False, "SecretKeyMissing", text)


def _of_oauth(name: str, there: frozenset[str], kind: Type, field: str) -> Finding:
    """Of a Secret for OAuth: a refresh token, or a GitHub App where its tokens are of use."""
    app = kind in _APPS and bool(there & _APP)
    needed = sorted(_APP if app else _REFRESHED | ({"username"} if kind is Type.EMAIL else set()))
    lacking = [key for key in needed if key not in there]
    if not there & {"provider", "token_url"}:
        lacking.append("provider")
    if not lacking:
        return Finding(None, "NotTried", f"Secret {name!r} has the keys for OAuth; no call has tried them yet.")
    text = (
        f"Secret {name!r} lacks {' and '.join(map(repr, lacking))}, which OAuth of {kind.value} needs; add it there,"
        f" or correct {field}. docs/connections.md, OAuth, has the keys of each provider."
    )
    return Finding(False, "SecretKeyMissing", text)
