"""What the operator counts beside its loops."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import prometheus_client
import pytest

from controllers import metrics
from crds import approvals, pendingtask

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_EFFECT = approvals.Effect(id="r1.d1.approval/2", tool="sendMail")
_ASKED = pendingtask.UserTask(kind=pendingtask.UserTaskKind.APPROVAL)


@pytest.mark.parametrize(
    ("asked", "since", "about"),
    [
        (_ASKED.model_copy(update={"effects": (_EFFECT,)}), NOW - timedelta(hours=2), "effects"),
        (_ASKED, NOW - timedelta(hours=2), "answer"),
        (_ASKED, None, None),
        (pendingtask.UserTask(kind=pendingtask.UserTaskKind.QUESTION), NOW - timedelta(hours=2), None),
        (None, NOW - timedelta(hours=2), None),
    ],
)
def test_how_long_a_request_of_approval_has_waited(
    asked: pendingtask.UserTask | None, since: datetime | None, about: str | None
) -> None:
    registry = prometheus_client.CollectorRegistry()
    metrics.Metrics(registry).decided(asked, since, NOW)
    waited = {
        kind: registry.get_sample_value("jervis_operator_approval_seconds_sum", {"about": kind})
        for kind in ("effects", "answer")
    }
    assert waited == {kind: 7200 if kind == about else None for kind in waited}
