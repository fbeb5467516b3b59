"""The data services of a demonstration in a cluster of yours."""

from __future__ import annotations

from hack.demo import services
from tests.chart import policies
from tests.chart.policies import End


def test_what_asks_for_no_password_is_reached_from_the_release_alone() -> None:
    rules = [dict(services.wall("shown"))]
    database = End(services.NAMESPACE, {"app.kubernetes.io/name": "mongodb"})
    assert policies.allows(rules, End("shown", {}), database, 27017)
    for other in (End("team-a", {"app.kubernetes.io/name": "jervis"}), End(services.NAMESPACE, {}), End("jervis", {})):
        assert not policies.allows(rules, other, database, 27017)
