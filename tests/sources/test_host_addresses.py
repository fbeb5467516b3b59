"""The address of a host, at the wire: what reads, acts and checks for a Connection calls one address with one login."""

from __future__ import annotations

import base64
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

import kube
from clients import tls_trust
from crds import connection, errors, scope
from crds.connection import Type
from sources.ci import hosts as ci_hosts
from sources.ci import serving as ci
from sources.core import host_address, hosts, limits, port
from sources.effects import targets, tools
from sources.providers import table
from sources.providers.git import clone, command, pushes, quarantine
from tests import httpserver
from tests.sources import parts

TLS = tls_trust.context()
TOKEN = "t0k3n-of-the-test"
LOGIN = ("Authorization", "PRIVATE-TOKEN", "X-GitHub-Api-Version", "User-Agent", "Accept")
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)

SHOP = "/projects/team%2Fshop"
FORMS: list[tuple[str, str, tuple[str, ...], str]] = [
    ("GitLab", "/team/shop", (), f"/api/v4{SHOP}"),
    ("GitLab", "/team/shop/", (), f"/api/v4{SHOP}"),
    ("GitLab", "/team/shop.git", (), f"/api/v4{SHOP}"),
    ("GitLab", "/team/shop/-/issues", (), f"/api/v4{SHOP}"),
    ("GitLab", "/team/shop/-/merge_requests/7/", (), f"/api/v4{SHOP}"),
    ("GitLab", "/team/sub/shop", (), "/api/v4/projects/team%2Fsub%2Fshop"),
    ("GitLab", "", ("team/shop",), f"/api/v4{SHOP}"),
    ("GitLab", "/", ("team/shop",), f"/api/v4{SHOP}"),
    ("GitLab", "/api/v4", ("team/shop",), f"/api/v4{SHOP}"),
    ("GitLab", "/gitlab", ("team/shop",), f"/gitlab/api/v4{SHOP}"),
    ("GitLab", "/gitlab/", ("team/shop",), f"/gitlab/api/v4{SHOP}"),
    ("GitLab", "/gitlab/api/v4/", ("team/shop",), f"/gitlab/api/v4{SHOP}"),
    ("GitLab", "/gitlab/myapi/v4/", ("team/shop",), f"/gitlab/myapi/v4/api/v4{SHOP}"),
    ("GitLab", "/team/myapi/v4", (), "/api/v4/projects/team%2Fmyapi%2Fv4"),
    ("GitLab", "/team/api/v4", (), "/api/v4/projects/team%2Fapi%2Fv4"),
    ("GitHub", "/acme/shop", (), "/api/v3/repos/acme/shop"),
    ("GitHub", "/acme/shop/", (), "/api/v3/repos/acme/shop"),
    ("GitHub", "/acme/shop.git", (), "/api/v3/repos/acme/shop"),
    ("GitHub", "/acme/shop/issues", (), "/api/v3/repos/acme/shop"),
    ("GitHub", "/api/v3/repos/acme/shop", (), "/api/v3/repos/acme/shop"),
    ("GitHub", "/api/v3/", ("acme/shop",), "/api/v3/repos/acme/shop"),
    ("GitHub", "/api/v3/acme/shop", (), "/api/v3/repos/acme/shop"),
    ("GitHub", "/api/v3x/shop", (), "/api/v3/repos/api/v3x"),
    ("GitHub", "/repos/shop", (), "/api/v3/repos/repos/shop"),
    ("GitHub", "/repos/shop/issues", (), "/api/v3/repos/repos/shop"),
    ("GitHub", "/api/v3/repos/repos/shop", (), "/api/v3/repos/repos/shop"),
    ("GitHub", "", ("acme/shop",), "/api/v3/repos/acme/shop"),
    ("Gitea", "/acme/shop", (), "/api/v1/repos/acme/shop"),
    ("Gitea", "/acme/shop.git/", (), "/api/v1/repos/acme/shop"),
    ("Gitea", "/git/acme/shop", (), "/git/api/v1/repos/acme/shop"),
    ("Gitea", "/git/", ("acme/shop",), "/git/api/v1/repos/acme/shop"),
    ("Gitea", "/git/api/v1", ("acme/shop",), "/git/api/v1/repos/acme/shop"),
    ("Gitea", "/git/myapi/v1", ("acme/shop",), "/git/myapi/v1/api/v1/repos/acme/shop"),
    ("Gitea", "/acme/myapi/v1", (), "/acme/api/v1/repos/myapi/v1"),
    ("Gitea", "/myapi/v1", (), "/api/v1/repos/myapi/v1"),
    ("Jira", "", ("SHOP",), "/rest/api/"),
    ("Jira", "/jira/", ("SHOP",), "/jira/rest/api/"),
    ("Confluence", "/wiki", ("SHOP",), "/wiki/rest/api/"),
    ("Confluence", "/base/wiki/", ("SHOP",), "/base/wiki/rest/api/"),
]
COMMENT = {"GitHub": "7", "GitLab": "7", "Gitea": "7", "Jira": "SHOP-7"}
Use = Callable[[connection.Spec, Mapping[str, str]], Coroutine[Any, Any, None]]


def bucket() -> limits.Bucket:
    unlimited = limits.Bucket(6000, 1000)
    unlimited.reserve = lambda now: 0.0  # type: ignore[method-assign]  # the time of a test stands still
    return unlimited


async def read(spec: connection.Spec, credentials: Mapping[str, str]) -> None:
    """Begin a poll."""
    opens = table.table(plain=True, tls=TLS, monotonic=lambda: 0.0, wall=lambda: NOW)
    async for _ in opens[spec.type](spec, credentials, bucket()).batches({}):
        pass


async def act(spec: connection.Spec, credentials: Mapping[str, str]) -> None:
    """Prepare an effect."""

    async def load(_: scope.Scope, key: str) -> bytes:
        raise AssertionError(key)

    means = tools.Means(load, TLS, True, lambda: NOW, lambda: 0.0)
    target = tools.Target("team-a", "tracker", spec, credentials, {}, bucket())
    tool, arguments = "addComment", {"issue": COMMENT.get(spec.type.value), "text": "Done."}
    if spec.type is Type.CONFLUENCE:
        tool, arguments = "editPage", {"page": "7", "text": "Done."}
    request = tools.EffectRequest(tools.parse(tool, arguments), target, scope.Scope(client_id="acme"), "m" * 32)
    effect = await tools.opened(table.effects(), tool, request, means)
    try:
        await effect.prepare()
    finally:
        await effect.close()


async def check(spec: connection.Spec, credentials: Mapping[str, str]) -> None:
    """Read the checks of a branch."""
    means = ci.Means(TLS, True, lambda: NOW, lambda: 0.0)
    target = tools.Target("team-a", "tracker", spec, credentials, {}, bucket())
    await ci.Ci(targets.Targets(cast(kube.Kube, None)), table.CHECKS, means, parts.meters()).read(
        target, ci_hosts.CommitQuery("", "main")
    )


def spec_of(kind: str, url: str, include: tuple[str, ...] = ()) -> connection.Spec:
    chosen = {"filter": {"include": include}} if include else {}
    return connection.Spec.model_validate(
        {"type": kind, "clientId": "acme", "secretRef": {"name": "login"}, "url": url, **chosen}
    )


async def called(server: httpserver.Recorder, use: Use, spec: connection.Spec, values: Mapping[str, str]) -> set[str]:
    """The logins that a use of the Connection sends; each of its requests is below the API of the host."""
    server.requests.clear()
    with pytest.raises(errors.JervisError):
        await use(spec, values)
    assert server.requests
    return {repr([(name, one.headers.get(name)) for name in LOGIN]) for one in server.requests}


SECRETS = [{"token": TOKEN}, {"access_token": TOKEN}, {"token": f" {TOKEN}\n"}, {"username": "ada", "token": TOKEN}]


@pytest.mark.parametrize(
    ("kind", "path", "include", "api", "secret"),
    [
        (*form, secret)
        for form in FORMS
        for secret in (SECRETS if form[1] in ("/team/shop", "/acme/shop", "", "/wiki") else SECRETS[:1])
    ],
)
async def test_reading_effects_and_checks_speak_to_one_address_with_one_login(
    kind: str, path: str, include: tuple[str, ...], api: str, secret: Mapping[str, str]
) -> None:
    uses: list[Use] = [read, act, *([check] if Type(kind) in connection.GIT_HOSTS else [])]
    logins: set[str] = set()
    async with httpserver.Recorder({}).serving() as server:
        for use in uses:
            logins |= await called(server, use, spec_of(kind, f"{server.url}{path}", include), secret)
            assert [one.path for one in server.requests if not one.path.startswith(api)] == [], use.__name__
    assert len(logins) == 1
    assert TOKEN in str(logins) or base64.b64encode(f"ada:{TOKEN}".encode()).decode() in str(logins)


@pytest.mark.parametrize("kind", ["GitHub", "GitLab", "Gitea", "Jira", "Confluence"])
@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("https://git.example:8443/a/b", "https://git.example:8443/"),
        ("https://GIT.Example/a/b", "https://GIT.Example/"),
        ("https://[fd00::1]/a/b", "https://[fd00::1]/"),
        ("https://[fd00::1]:8443/a/b", "https://[fd00::1]:8443/"),
    ],
)
def test_host_and_port_stay(kind: str, url: str, root: str) -> None:
    found = host_address.derive(table.RULES[Type(kind)], spec_of(kind, url), {"token": TOKEN}, plain=False)
    assert found.api.startswith(root)
    assert f"{found.web}/".startswith(root)


@pytest.mark.parametrize("kind", ["GitHub", "GitLab", "Gitea", "Jira", "Confluence"])
@pytest.mark.parametrize(
    "url",
    [
        "https://ada:word@git.example/a/b",
        "https://ada@git.example/a/b",
        "https://git.example@elsewhere.example/a/b",
        "http://git.example/a/b",
        "https://git.example:port/a/b",
        "https://[fd00::1/a/b",
        "https:///a/b",
        "ssh://git.example/a/b",
        "ftp://git.example/a/b",
    ],
)
def test_a_url_that_no_token_may_go_to_is_refused(kind: str, url: str) -> None:
    with pytest.raises(port.Misconfigured) as caught:
        host_address.derive(table.RULES[Type(kind)], spec_of(kind, url), {"token": TOKEN}, plain=False)
    assert caught.value.field == "spec.url"
    assert caught.value.remedy
    assert "word" not in caught.value.message


@pytest.mark.parametrize("url", ["https://github.com/a/b", "https://GitHub.com:443/a/b", "https://www.github.com/a/b/"])
def test_github_com_has_its_api_at_another_host(url: str) -> None:
    found = host_address.derive(table.RULES[Type.GITHUB], spec_of("GitHub", url), {"token": TOKEN}, plain=False)
    assert (found.api, found.web, found.names) == ("https://api.github.com", "https://github.com", ("a/b",))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.github.com/repos/a/b", "a/b"),
        ("https://api.github.com/repos/repos/b", "repos/b"),
        ("https://API.github.com:443/repos/a/b", "a/b"),
        ("https://github.com/repos/b", "repos/b"),
        ("https://acme.ghe.com/repos/b", "repos/b"),
        ("https://api.acme.ghe.com/repos/a/b", "a/b"),
    ],
)
def test_a_path_of_github_s_api_names_the_repository_after_repos(url: str, name: str) -> None:
    found = host_address.derive(table.RULES[Type.GITHUB], spec_of("GitHub", url), {"token": TOKEN}, plain=False)
    assert found.names == (name,)


@pytest.mark.parametrize(("kind", "path"), [("GitLab", "/api/v4"), ("GitHub", "/api/v3/"), ("Gitea", "/git/api/v1")])
def test_an_api_alone_names_no_repository(kind: str, path: str) -> None:
    with pytest.raises(port.Misconfigured, match="name no repository"):
        host_address.derive(
            table.RULES[Type(kind)], spec_of(kind, f"https://git.example{path}"), {"token": TOKEN}, plain=False
        )


@pytest.mark.parametrize("kind", ["GitHub", "GitLab", "Gitea"])
@pytest.mark.parametrize("mark", [chr(code) for code in (*range(0x21), 0x7F)] + ["?", "#", "%", "\\"])
def test_a_name_that_leads_to_another_path_is_none_of_a_repository(kind: str, mark: str) -> None:
    for name in (f"a/.{mark}./.{mark}./user", f"a/{mark}b", f"a/b{mark}", f"{mark}a/b"):
        with pytest.raises(port.Misconfigured, match="name no repository"):
            host_address.derive(
                table.RULES[Type(kind)], spec_of(kind, "https://h.example", (name,)), {"token": TOKEN}, plain=False
            )


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example/base/a/b.git",
        "https://GIT.example:8443/a/b/",
        "https://[fd00::1]:8443/a/b",
        "ssh://git.example:2222/a/b.git",
        "http://git.example/a/b",
    ],
)
def test_polls_and_pushes_of_a_repository_call_one_remote(url: str, tmp_path: Path) -> None:
    secret = {"username": "ada", "password": TOKEN, "ssh-privatekey": "key", "known_hosts": "git.example key"}
    spec, loopback = spec_of("Git", url), hosts.Hosts(loopback=True)
    shared = pushes.Pushes(
        never, plain=True, authorities="", reached=loopback, monotonic=lambda: 0.0,
        bounds=quarantine.Bounds(seconds=60.0),
    )  # fmt: skip
    polled = command.remote(spec.url, secret, plain=True, authorities="", seconds=60.0, reached=loopback)
    assert shared.remote(spec, secret) == polled
    assert polled.url == url


async def never(namespace: str, name: str, url: str, commits: Sequence[str]) -> clone.Clone:
    raise AssertionError(url)


@pytest.mark.parametrize("kind", ["Email", "Git"])
def test_a_url_with_a_login_is_no_address_of_mail_or_git(kind: str) -> None:
    secret = {"username": "ada", "password": TOKEN}

    def opens(spec: connection.Spec, credentials: Mapping[str, str]) -> object:
        if spec.type is Type.GIT:
            return command.remote(spec.url, credentials, plain=True, authorities="", seconds=60.0)
        return table.table(plain=True, tls=TLS, monotonic=lambda: 0.0, wall=lambda: NOW)[spec.type](
            spec, credentials, bucket()
        )

    for scheme in connection.SCHEMES[Type(kind)]:
        spec = spec_of(kind, f"{scheme}://ada:word@host.example/a/b")
        with pytest.raises(port.Misconfigured, match="has a login") as caught:
            opens(spec, secret)
        assert (caught.value.field, "word" in caught.value.message) == ("spec.url", False)


def test_every_type_with_a_rest_api_derives_its_address() -> None:
    called = {kind for kind in Type if connection.SCHEMES[kind] == ("http", "https")} - connection.UNCALLED
    assert table.RULES.keys() == called
    assert tuple(table.GIT_HOSTS) == connection.GIT_HOSTS
    assert {kind for tool in tools.TOOLS.values() for kind in tool.types} == table.effects().keys()
