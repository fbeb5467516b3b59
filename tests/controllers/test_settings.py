"""Settings as a chart writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controllers import clients, settings
from controllers.archive import reconcile as archivist
from controllers.archive import retention, sweep
from controllers.notices import reconcile as notifier
from controllers.outcomes import reconcile as reporter
from controllers.pendingtask import observed


def test_defaults_are_the_seeds_numbers() -> None:
    limits = settings.Settings(_env_file=None).limits()
    assert limits.clients.of("anybody") == clients.Terms(timedelta(days=2), ())
    assert limits.idle_threshold == timedelta(seconds=30)
    assert limits.stale_after == timedelta(minutes=10)
    assert limits.qualifying_at_once == 10


def test_a_default_is_that_of_what_it_bounds() -> None:
    usual = settings.Settings(_env_file=None)
    assert usual.limits() == observed.Limits()
    assert usual.terms() == sweep.Terms()
    assert usual.periods() == retention.Periods()
    assert usual.pace() == archivist.Pace()
    assert usual.outcome_pace() == reporter.Pace()
    assert usual.notice_pace() == notifier.Pace()


@pytest.mark.parametrize("text", ["a, b@example.org", '["a", "b@example.org"]'])
def test_lists_are_json_or_separated_by_commas(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("JERVIS_OPERATOR_TEAM", text)
    assert settings.Settings().team == ("a", "b@example.org")


def test_the_chart_s_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {
        "NAMESPACE": "jervis",
        "SCHEDULE_LEAD_DAYS": "5",
        "IDLE_SECONDS": "3",
        "KB_READ_URL": "http://read",
        "JOB_RESOURCES": '{"limits": {"memory": "2Gi"}}',
    }.items():
        monkeypatch.setenv(f"JERVIS_OPERATOR_{key}", value)
    known = settings.Settings()
    assert known.namespace == "jervis"
    assert known.limits().clients.default.lead == timedelta(days=5)
    assert known.template().kb_url == "http://read"
    assert known.template().resources == {"limits": {"memory": "2Gi"}}


@pytest.mark.parametrize(
    "text",
    [
        '{"acme": {"scheduleLeadDays": 5}, "beta": {"team": ["Ada", "ada@beta.example"]}, "gamma": {"team": []}}',
        "acme: {scheduleLeadDays: 5}\nbeta:\n  team: [Ada, ada@beta.example]\ngamma: {team: []}\n",
    ],
    ids=["json", "yaml"],
)
def test_clients_have_terms_of_their_own(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("JERVIS_OPERATOR_CLIENTS", text)
    monkeypatch.setenv("JERVIS_OPERATOR_TEAM", "ops")
    known = settings.read().client_terms()
    assert known.of("acme") == clients.Terms(timedelta(days=5), ("ops",))
    assert known.of("beta") == clients.Terms(timedelta(days=2), ("Ada", "ada@beta.example"))
    assert known.of("gamma").team == (), "an empty list is not a missing one"
    assert known.of("somebody-else") == clients.Terms(timedelta(days=2), ("ops",))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("acme: {scheduleLeadDays: -1}", "JERVIS_OPERATOR_CLIENTS.acme.scheduleLeadDays: "),
        ("acme: {scheduleLead: 1}", "JERVIS_OPERATOR_CLIENTS.acme.scheduleLead: Extra inputs"),
        ("acme: {team: ops}", "JERVIS_OPERATOR_CLIENTS.acme.team: "),
        ("a b: {}", "JERVIS_OPERATOR_CLIENTS.a b: "),
        ("[acme]", "JERVIS_OPERATOR_CLIENTS: "),
        ("acme: {", "JERVIS_OPERATOR_CLIENTS: Value error, is neither JSON nor YAML"),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, text: str, told: str) -> None:
    monkeypatch.setenv("JERVIS_OPERATOR_CLIENTS", text)
    with pytest.raises(settings.Invalid) as caught:
        settings.read()
    assert f"\n  {told}" in caught.value.message
