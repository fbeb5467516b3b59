"""What is served, as kopf's decorators say it, kept apart from what kopf itself multiplexes.

kopf calls its life-cycle handlers. The handlers of kinds are registered with it as well, in a registry of their own
(`@kopf.on.event(..., registry=KINDS)`), which `controllers.stream` feeds: kopf would keep a queue, an asyncio task and
a record for every object, copy and compare each object, and list everything a second time at the start. None of it is
of use to handlers that only enqueue (docs/decisions/0020).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import kopf

Handler = Callable[..., None]
"""Called with `event` ({type, object}) and `memo`; synchronous, because it only enqueues."""


class Kinds(kopf.OperatorRegistry):
    """Handlers of watch events by kind."""

    def handler(self, group: str, version: str, plural: str) -> Handler:
        """The one handler of a kind; raises LookupError when none was registered."""
        for one in self._watching.get_all_handlers():
            wanted = one.selector
            if wanted is not None and (wanted.group, wanted.version, wanted.any_name) == (group, version, plural):
                return cast("Handler", one.fn)
        raise LookupError(f"no handler for {plural}.{group or 'core'}/{version}")
