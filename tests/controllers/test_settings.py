"""Settings as a chart writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controllers import settings


def test_defaults_are_the_seeds_numbers() -> None:
    limits = settings.Settings(_env_file=None).limits()
    assert limits.schedule_lead == timedelta(days=2)
    assert limits.idle_threshold == timedelta(seconds=30)
    assert limits.stale_after == timedelta(minutes=10)
    assert limits.qualifying_at_once == 10


@pytest.mark.parametrize("text", ["a, b@example.org", '["a", "b@example.org"]'])
def test_lists_are_json_or_separated_by_commas(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("JERVIS_OPERATOR_TEAM", text)
    assert settings.Settings().team == ("a", "b@example.org")


def test_the_chart_s_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {
        "NAMESPACE": "jervis",
        "WATCH_NAMESPACES": '["jervis","team-a"]',
        "SCHEDULE_LEAD_DAYS": "5",
        "IDLE_SECONDS": "3",
        "KB_READ_URL": "http://read",
        "JOB_RESOURCES": '{"limits": {"memory": "2Gi"}}',
    }.items():
        monkeypatch.setenv(f"JERVIS_OPERATOR_{key}", value)
    known = settings.Settings()
    assert known.namespaces == ("jervis", "team-a")
    assert known.limits().schedule_lead == timedelta(days=5)
    assert known.template().kb_url == "http://read"
    assert known.template().resources == {"limits": {"memory": "2Gi"}}
    monkeypatch.setenv("JERVIS_OPERATOR_WATCH_NAMESPACES", "[]")
    assert settings.Settings().namespaces == ("jervis",)
