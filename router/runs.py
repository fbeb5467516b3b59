"""Run tokens at the router: a run calls models in its client's name, at most as urgently as its token says.

Imported only by a router that has keys of run tokens: PyJWT and what it stands on cost 14 MiB.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from clients import liveruns
from contracts.tokens import runtoken
from crds import errors
from crds.pendingtask import Mode
from router import auth
from router.proxy.message import Identity
from router.proxy.refusal import Refusal

_OWN = "/router/"
_RESERVES = frozenset({"/router/announce", "/router/release"})
"""A run keeps a GPU for itself, under its own name, and gives it back."""


class Runs:
    """Verifies by the keys in `folder`, and asks the operator at `url` which runs there are. `monotonic` gives seconds,
    `wall` the time in UTC. Raises runtoken.Unusable when it is made."""

    def __init__(
        self, folder: str, url: str = "", *, monotonic: Callable[[], float], wall: Callable[[], datetime]
    ) -> None:
        runs = liveruns.opened(folder, url, runtoken.ROUTER, monotonic=monotonic, wall=wall)
        self._verifier, self.follow = runs.verifier, runs.follow

    def find(self, path: str, token: str) -> Identity | None:
        """Whose run token it is; None for a token of another kind. Raises Refusal: 401, 403 for a path that is none of
        a run's, 503 where it is not known whether the run is over."""
        if not runtoken.is_run_token(token):
            return None
        try:
            claims = self._verifier.verify(token)
        except runtoken.Refused as error:
            raise auth.unauthorized(f"{error.message}. {error.remedy}") from error
        except errors.Operational as error:
            raise auth.unchecked(error) from error
        if path.startswith(_OWN) and path not in _RESERVES:
            raise Refusal(403, f"{path} is not for runs: a run token opens the models' API alone (docs/tokens.md)")
        return Identity(
            claims.scope.client_id,
            ceiling=claims.ceiling,
            run=claims.task_uid,
            background=claims.mode is Mode.BACKGROUND,
        )
