"""What GpuBackends and Connections say about themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controllers import admission
from controllers.connection import credentials
from controllers.connection import decide as connection_decide
from controllers.gpubackend import contexts, decide, probe
from crds import connection, gpubackend, pendingtask
from tests.controllers.build import NOW

MODELS: dict[str, Any] = {"modelSets": [{"name": "a", "models": [{"name": "qwen3-coder:30b"}, {"name": "embed"}]}]}


def backend(status: dict[str, Any] | None = None, **spec: Any) -> gpubackend.GpuBackend:
    return gpubackend.GpuBackend.model_validate(
        {
            "metadata": {"name": "g", "uid": "u", "resourceVersion": "1", "generation": 1},
            "spec": {"url": "http://gpu:11434", **spec},
            "status": status or {},
        }
    )


def said(patch: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in patch["conditions"]}


def test_a_reachable_server_with_its_models_is_ready_and_then_nothing_is_written() -> None:
    answer = probe.Answer("0.17.4", frozenset({"qwen3-coder:30b", "embed:latest", "other"}))
    first = decide.patch(backend(**MODELS), answer, NOW)
    assert said(first)["Ready"] == ("True", "Serving")
    assert first["version"] == "0.17.4"
    known = backend(first, **MODELS)
    assert decide.ready(known)
    assert decide.patch(known, answer, NOW + timedelta(hours=1)) == {}


def test_missing_models_are_named_and_the_others_go_on_being_served() -> None:
    patch = decide.patch(backend(**MODELS), probe.Answer("1", frozenset({"embed"})), NOW)
    assert said(patch)["ModelsLoaded"] == ("False", "ModelsMissing")
    assert said(patch)["Ready"] == ("True", "Serving"), "as the router, which serves what is there"
    messages = [condition["message"] for condition in patch["conditions"]]
    assert [message.count("qwen3-coder:30b") for message in messages] == [0, 1, 1]
    known = backend(patch, **MODELS)
    assert decide.offers(known)
    assert not decide.has(known, "qwen3-coder:30b", frozenset({"embed"})), "it is not reserved for that model"


def test_a_window_that_a_process_asks_for_is_compared_with_what_is_loaded() -> None:
    def sets(*entries: tuple[str, int | None]) -> dict[str, Any]:
        models = [{"name": name, **({"numCtx": tokens} if tokens else {})} for name, tokens in entries]
        return {"modelSets": [{"name": "a", "models": models}]}

    answer = probe.Answer("1", frozenset({"light:14b", "heavy:30b"}))
    windows = [
        contexts.Window(role="planner", model="light:14b", num_ctx=8192),
        contexts.Window(role="orchestrator", model="heavy:30b", num_ctx=16384),
    ]
    small = decide.patch(backend(**sets(("light:*", 4096), ("heavy:30b", 32768))), answer, NOW, windows)
    assert said(small)["ContextFits"] == ("False", "ContextTooSmall")
    assert said(small)["Ready"] == ("True", "Serving")
    assert small["conditions"][-1]["message"].startswith(
        "models.numCtx.planner is 8192, but light:14b is loaded with 4096 here. Requests get"
    )
    # A name counts before a pattern, as for the router.
    exact = sets(("light:*", 4096), ("light:14b", 8192))
    assert said(decide.patch(backend(**exact), answer, NOW, windows))["ContextFits"] == ("True", "Fits")
    for silent in (sets(("light:14b", None)), sets(("other:1b", 512))):
        assert "ContextFits" not in said(decide.patch(backend(**silent), answer, NOW, windows))
        later = decide.patch(backend(small, **silent), answer, NOW, windows)
        assert said(later)["ContextFits"] == ("True", "Fits"), "what was written does not stay wrong"


def test_a_server_that_lacks_all_models_of_its_sets_is_not_ready() -> None:
    patch = decide.patch(backend(**MODELS), probe.Answer("1", frozenset({"other"})), NOW)
    assert said(patch)["Ready"] == said(patch)["ModelsLoaded"] == ("False", "ModelsMissing")
    assert "qwen3-coder:30b" in patch["conditions"][1]["message"]


@pytest.mark.parametrize(
    ("entries", "installed", "lacks"),
    [
        (["qwen2.5:*"], ["qwen2.5:7b"], []),
        (["qwen2.5:*"], ["QWEN2.5:7b"], []),
        (["qwen2.5*"], ["qwen2.5"], []),
        (["*"], ["any"], []),
        (["*"], [], ["*"]),
        (["qwen2.5:*"], ["qwen3:7b"], ["qwen2.5:*"]),
        (["qwen3"], ["qwen3:latest"], []),
        (["library/qwen3"], ["qwen3"], []),
        (["qwen3"], ["qwen3:7b"], ["qwen3"]),
        (["qwen2.5:*", "a", "b:1"], ["qwen2.5:7b", "b:1"], ["a"]),
    ],
)
def test_a_model_or_a_pattern_is_there_when_an_installed_model_fits(
    entries: list[str], installed: list[str], lacks: list[str]
) -> None:
    known = backend(modelSets=[{"name": "a", "models": [{"name": name} for name in entries]}])
    assert decide.missing(known, frozenset(installed)) == lacks
    patch = decide.patch(known, probe.Answer("1", frozenset(installed)), NOW)
    assert said(patch)["ModelsLoaded"] == (("False", "ModelsMissing") if lacks else ("True", "Present"))
    assert said(patch)["Ready"] == (("False", "ModelsMissing") if lacks == entries else ("True", "Serving"))


def test_a_pattern_that_nothing_fits_is_named_apart_from_a_model_that_is_missing() -> None:
    known = backend(modelSets=[{"name": "a", "models": [{"name": "qwen2.5:*"}, {"name": "embed"}]}])
    message = decide.patch(known, probe.Answer("1", frozenset({"other"})), NOW)["conditions"][1]["message"]
    assert message == (
        "The server lacks embed. No model of the server matches qwen2.5:*. "
        "Pull models that fit, or correct spec.modelSets."
    )


def test_a_backend_outside_of_the_releases_namespace_is_told_where_it_belongs() -> None:
    patch = decide.patch(backend(), decide.misplaced("jervis"), NOW)
    assert said(patch)["Ready"] == ("False", "WrongNamespace")
    assert "kubectl apply -n jervis" in patch["conditions"][2]["message"]


def test_draining_is_not_ready() -> None:
    patch = decide.patch(backend(drain=True), probe.Answer("1", frozenset()), NOW)
    assert said(patch)["Ready"] == ("False", "Draining")


def test_an_unreachable_server_says_why_and_does_not_pretend_to_know_its_models() -> None:
    patch = decide.patch(backend(), probe.Failure("Unreachable", "refused"), NOW)
    assert said(patch) == {
        "Reachable": ("False", "Unreachable"),
        "ModelsLoaded": ("Unknown", "Unreachable"),
        "Ready": ("False", "Unreachable"),
    }


def conn(status: dict[str, Any] | None = None, **spec: Any) -> connection.Connection:
    return connection.Connection.model_validate(
        {
            "metadata": {"name": "c", "uid": "u", "resourceVersion": "1", "generation": 2},
            "spec": {"type": "Jira", "clientId": "acme", "url": "https://jira.example.org", **spec},
            "status": status or {},
        }
    )


SECRET = {"secretRef": {"name": "s"}}
HAS_TOKEN = credentials.of_keys(conn(**SECRET).spec, ["token"])


@pytest.mark.parametrize(
    ("spec", "found", "reason"),
    [
        ({}, credentials.unneeded(conn().spec), "SecretRefMissing"),
        (SECRET, HAS_TOKEN, "PollingNotEnabled"),
        (SECRET, credentials.absent("s", "team"), "SecretNotFound"),
        (SECRET, credentials.of_keys(conn(**SECRET).spec, ["username"]), "SecretKeyMissing"),
        (SECRET, credentials.unreadable("s", "team"), "PollingNotEnabled"),
        ({**SECRET, "suspend": True}, HAS_TOKEN, "Suspended"),
        ({**SECRET, "url": "imaps://mail"}, HAS_TOKEN, "InvalidURL"),
        ({**SECRET, "url": "https://"}, HAS_TOKEN, "InvalidURL"),
        ({"type": "Git", "url": "file:///srv/x.git"}, credentials.unneeded(conn(type="Git").spec), "InvalidURL"),
    ],
)
def test_a_connection_is_honest(spec: dict[str, Any], found: credentials.Finding, reason: str) -> None:
    patch = connection_decide.patch(conn(**spec), found, NOW)
    assert said(patch)["Ready"] == ("False", reason)
    assert patch["observedGeneration"] == 2
    assert connection_decide.patch(conn(patch, **spec), found, NOW + timedelta(days=1)) == {}


def test_a_connection_of_a_client_that_its_namespace_may_not_have_says_so() -> None:
    why = admission.Refusal(pendingtask.NotAllowed.CLIENT, "spec.clientId: acme is not a client of namespace team-a.")
    patch = connection_decide.patch(conn(**SECRET), credentials.refused(why), NOW)
    assert said(patch) == {
        "CredentialsValid": ("Unknown", "ClientNotAllowed"),
        "Ready": ("False", "ClientNotAllowed"),
    }
    assert patch["conditions"][1]["message"] == why.message


def test_what_is_wrong_with_a_secret_names_its_namespace() -> None:
    for found in (credentials.absent("s", "team-a"), credentials.unreadable("s", "team-a")):
        assert "Secret 's'" in found.message
        assert "namespace 'team-a'" in found.message
    assert "rbac.connectionSecrets" in credentials.unreadable("s", "team-a").message
    assert "helm get notes" in credentials.unreadable("s", "team-a").message


def test_what_oauth_lacks_is_named() -> None:
    found = credentials.of_keys(conn(**SECRET).spec, ["client_id", "client_secret", "provider"])
    assert "lacks 'refresh_token', which OAuth of Jira needs" in found.message
    smtp = credentials.of_login("s", ["provider", "client_id", "refresh_token"])
    assert (smtp.ok, smtp.reason) == (False, "SecretKeyMissing")
    assert "lacks 'username'" in smtp.message
    assert "spec.smtp.secretRef" in smtp.message


def test_a_host_has_to_be_listed_where_there_is_a_list() -> None:
    smtp = {"url": "smtps://smtp.example.org", "from": "team@example.org"}
    mailbox = conn(type="Email", url="imaps://Mail.corp.example", smtp=smtp, **SECRET)
    for hosts, field in (
        (("*.example.com",), "spec.url: host 'mail.corp.example'"),
        (("corp.example", "smtp.example.org"), "spec.url"),
        (("*.corp.example",), "spec.smtp.url: host 'smtp.example.org'"),
    ):
        patch = connection_decide.patch(mailbox, HAS_TOKEN, NOW, hosts=hosts)
        assert said(patch)["Ready"] == ("False", "HostNotAllowed")
        message = next(one["message"] for one in patch["conditions"] if one["type"] == "Ready")
        assert field in message
        assert "sources.settings.allowedHosts" in message
        assert not connection_decide.accepted(mailbox, HAS_TOKEN, hosts=hosts)
    for listed in ((), ("*.corp.example", "smtp.example.org")):
        assert connection_decide.accepted(mailbox, HAS_TOKEN, hosts=listed)


def test_a_file_is_a_source_only_where_that_is_allowed() -> None:
    git = conn(type="Git", url="file:///srv/x.git")
    found = credentials.unneeded(git.spec)
    assert "connections.allowFileUrls" in connection_decide.patch(git, found, NOW)["conditions"][1]["message"]
    allowed = connection_decide.patch(git, found, NOW, file_urls=True)
    assert said(allowed)["Ready"] == ("False", "PollingNotEnabled")


@pytest.mark.parametrize(
    ("type_", "key", "keys", "reason"),
    [
        ("Email", "", ["username", "password"], "NotTried"),
        ("Email", "", ["token"], "SecretKeyMissing"),
        ("Jira", "", ["token"], "NotTried"),
        ("GitHub", "", ["token"], "NotTried"),
        ("GitHub", "", ["password", "username"], "SecretKeyMissing"),
        ("GitLab", "", ["password", "username"], "SecretKeyMissing"),
        ("Gitea", "", ["password", "username"], "NotTried"),
        ("Gitea", "", ["password"], "SecretKeyMissing"),
        ("Git", "", ["ssh-privatekey", "known_hosts"], "NotTried"),
        ("Git", "", ["ssh-privatekey"], "SecretKeyMissing"),
        ("Git", "pat", ["pat"], "NotTried"),
        ("Git", "pat", ["token"], "SecretKeyMissing"),
        ("Jira", "", [], "SecretKeyMissing"),
        ("Jira", "", ["provider", "client_id", "client_secret", "refresh_token"], "NotTried"),
        ("Jira", "", ["token_url", "client_id", "refresh_token"], "NotTried"),
        ("Jira", "", ["client_id", "refresh_token"], "SecretKeyMissing"),
        ("Jira", "", ["provider", "app_id", "installation_id", "private_key"], "SecretKeyMissing"),
        ("Email", "", ["provider", "client_id", "refresh_token"], "SecretKeyMissing"),
        ("Email", "", ["provider", "client_id", "refresh_token", "username"], "NotTried"),
        ("GitHub", "", ["provider", "app_id", "installation_id", "private_key"], "NotTried"),
        ("Git", "", ["provider", "app_id", "private_key"], "SecretKeyMissing"),
        ("GitHub", "pat", ["pat", "provider"], "NotTried"),
    ],
)
def test_which_keys_a_type_needs(type_: str, key: str, keys: list[str], reason: str) -> None:
    known = conn(type=type_, secretRef={"name": "s", "key": key}).spec
    found = credentials.of_keys(known, keys)
    assert found.reason == reason
    assert found.ok is (None if reason == "NotTried" else False)
    if found.ok is False:
        assert "spec.secretRef" in found.message
