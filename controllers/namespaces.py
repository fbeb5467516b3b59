"""The namespaces that are served: which ones belong to the scope, and which of them let the operator in.

A scope is what kopf's flags say (`-n NAME`, `-n PATTERN`, `-A`) and, with `-A`, a label selector. The release's own
namespace always belongs to it. With fixed names the members never change; with a pattern or `-A` a metadata-only watch
of the Namespaces makes them come and go. A member that is deleted or forbidden stays a member: it has a state, a
metric, a log line and an Event, and the others do not notice it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog

from controllers import admission
from crds import errors

log = structlog.get_logger(__name__)


class State(StrEnum):
    """May the operator list and watch our kinds there?"""

    PENDING = "pending"
    """Not asked yet."""
    SERVED = "served"
    PARTIAL = "partial"
    """Some of our kinds are refused there, and left alone; the others are served."""
    FORBIDDEN = "forbidden"
    ABSENT = "absent"


class Invalid(errors.Permanent):
    """The flags contradict each other or the settings."""


@dataclass(frozen=True, slots=True)
class Scope:
    """`own`: the release's namespace. `patterns`: kopf's `-n`; empty with `-A`. `labels`: a label selector."""

    own: str
    patterns: tuple[str, ...] = ()
    labels: str = ""

    @classmethod
    def of(cls, own: str, *, patterns: Collection[str], everywhere: bool, labels: str) -> Scope:
        """Raises `Invalid`."""
        if everywhere == bool(patterns):
            raise Invalid(
                "kopf run needs either --namespace or --all-namespaces",
                field="-n/-A",
                remedy=f"Say -n {own} to serve that namespace alone, or -A.",
            )
        if labels and not everywhere:
            raise Invalid(
                "JERVIS_OPERATOR_NAMESPACE_SELECTOR chooses among all namespaces, and --namespace names some",
                field="JERVIS_OPERATOR_NAMESPACE_SELECTOR",
                remedy="Say -A, or leave the selector empty.",
            )
        if not everywhere and not any(_matches(own, one) for one in patterns):
            raise Invalid(
                f"the release's namespace {own} is not among the served ones; GpuBackends live there",
                field="-n",
                remedy=f"Add -n {own}.",
            )
        return cls(own, tuple(patterns), labels)

    @property
    def everywhere(self) -> bool:
        """One list and one watch of each kind for all namespaces."""
        return not self.patterns

    @property
    def fixed(self) -> bool:
        """All are known by name: no right to list Namespaces is needed."""
        return bool(self.patterns) and not any(_is_pattern(one) for one in self.patterns)

    def takes(self, name: str) -> bool:
        """Does a namespace that has the labels belong to it?"""
        return name == self.own or self.everywhere or any(_matches(name, one) for one in self.patterns)


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in "!*?,")


def _matches(name: str, pattern: str) -> bool:
    """As kopf documents it: globs between commas, `!` takes out; after an exclusion a later glob takes in again."""
    globs = [one.strip() for one in pattern.split(",")]
    if globs[0].startswith("!"):
        globs.insert(0, "*")
    found = first = fnmatch.fnmatchcase(name, globs[0])
    for one in globs[1:]:
        if one.startswith("!"):
            found = found and not fnmatch.fnmatchcase(name, one[1:])
        else:
            found = found or (first and fnmatch.fnmatchcase(name, one))
    return found


class Change(StrEnum):
    """What an event of a Namespace did to the members."""

    NONE = ""
    LIMITS = "limits"
    JOINED = "joined"
    LEFT = "left"


_LIMITS = (admission.CLIENTS, admission.MODES)


class Namespaces(Collection[str]):
    """Members by name, in alphabetical order, each with its state and the annotations that limit it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._limits: dict[str, dict[str, str]] = {}
        members = scope.patterns if scope.fixed else (scope.own,)
        self._states: dict[str, State] = dict.fromkeys(sorted({*members}), State.PENDING)
        self._refused: dict[str, tuple[str, ...]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._states

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._states))

    def __len__(self) -> int:
        return len(self._states)

    def state(self, name: str) -> State:
        """Of a member; raises KeyError."""
        return self._states[name]

    def states(self) -> dict[str, State]:
        """Of all members."""
        return dict(sorted(self._states.items()))

    def refused(self, name: str) -> tuple[str, ...]:
        """The kinds (plural) that are refused in a member whose state is PARTIAL."""
        return self._refused.get(name, ())

    def described(self) -> dict[str, str]:
        """The state of each member as a text; PARTIAL with the kinds that are refused."""
        return {
            name: f"{state.value}: without {', '.join(self._refused[name])}" if name in self._refused else state.value
            for name, state in self.states().items()
        }

    def record(self, name: str, state: State, why: str = "", refused: tuple[str, ...] = ()) -> bool:
        """What the API answered about a member; `refused` of PARTIAL. True when that is news; a name that is no member
        is ignored."""
        if name not in self._states or (self._states[name] is state and self.refused(name) == refused):
            return False
        self._states[name] = state
        self._refused.pop(name, None)
        if refused:
            self._refused[name] = refused
        if state is State.SERVED:
            log.info("namespace served", namespace=name)
        else:
            log.warning("namespace not served", namespace=name, state=state.value, reason=why)
        return True

    def annotations(self, name: str) -> Mapping[str, str] | None:
        """Those that limit it; None while its Namespace has not been read."""
        return self._limits.get(name)

    def read(self, name: str, raw: Mapping[str, Any] | None) -> bool:
        """A member's Namespace as it is now; None when there is none. True when its limits have changed."""
        if raw is None:
            self._limits.pop(name, None)
            return False
        given = raw["metadata"].get("annotations") or {}
        found = {key: given[key] for key in _LIMITS if key in given}
        if self._limits.get(name) == found:
            return False
        self._limits[name] = found
        log.info("limits of a namespace read", namespace=name, annotations=found)
        return True

    def observe(self, kind: str, raw: Mapping[str, Any]) -> Change:
        """An event of a Namespace that has the scope's labels; DELETED also when it has lost them."""
        name = raw["metadata"]["name"]
        if kind == "DELETED":
            if name != self.scope.own and self._states.pop(name, None) is not None:
                self._limits.pop(name, None)
                self._refused.pop(name, None)
                log.info("namespace left", namespace=name)
                return Change.LEFT
            return Change.NONE
        if not self.scope.takes(name):
            return Change.NONE
        joins = name not in self._states
        if joins:
            self._states[name] = State.PENDING
            log.info("namespace joined", namespace=name)
        changed = self.read(name, raw)
        return Change.JOINED if joins else Change.LIMITS if changed else Change.NONE

    def known(self) -> Iterator[dict[str, Any]]:
        """The members, as much of them as a deletion needs."""
        return ({"metadata": {"name": name, "uid": name}} for name in self)
