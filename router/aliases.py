"""Other names for models, as the router knows them. Their rule is `crds.modelaliases`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from crds.modelaliases import NONE, Aliases

__all__ = ["NONE", "Aliases", "Shadows"]

_log = structlog.get_logger("router.aliases")


class Shadows:
    """Reports aliases that hide a model of a backend. `installed` gives the normalised names of what backends have."""

    def __init__(self, aliases: Aliases, installed: Callable[[], Iterable[str]]) -> None:
        self._aliases = aliases
        self._installed = installed
        self._known: set[str] = set()

    def look(self) -> None:
        """The backends changed."""
        hidden = {name for name in self._installed() if name in self._aliases}
        for name in sorted(hidden - self._known):
            _log.warning(
                "an alias hides a model of that name",
                alias=name,
                stands_for=self._aliases.target(name),
                remedy="rename the alias in JERVIS_ROUTER_ALIASES (router.aliases), or the model",
            )
        self._known = hidden
