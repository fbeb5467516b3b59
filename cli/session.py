"""What a command is given: the cluster as this user sees it, where to print, and the time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cli.output import Format, Output

if TYPE_CHECKING:
    from cli.kube import Kube


def _utc() -> datetime:
    return datetime.now(UTC)


def _identity() -> str:
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True)
class Session:
    """`now` is aware and UTC, `clock` monotonic seconds, `identity` an id that is fresh within one task."""

    kube: Kube
    output: Output
    now: Callable[[], datetime] = field(default=_utc)
    clock: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)
    identity: Callable[[], str] = field(default=_identity)

    @property
    def trial(self) -> str:
        """What kubectl adds to a sentence where nothing was written."""
        return " (server dry run)" if self.kube.dry_run else ""


def connect(
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    timeout: float,
    format_: Format,
    *,
    dry_run: bool = False,
) -> Session:
    """Raises `Unusable` when there is no way to a cluster; nothing is asked yet.

    `dry_run`: the apiserver checks changes and writes none.
    """
    # Imported late: its client takes longer to load than --help or a usage error should.
    from cli import kube

    return Session(kube.connect(kubeconfig, context, namespace, timeout, dry_run=dry_run), Output(format_))
