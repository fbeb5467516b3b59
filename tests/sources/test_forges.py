"""Issues of GitHub and GitLab by a model of their wire: nothing is lost while lists shift, and no error is an end."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clients import tls_trust
from crds import access, connection
from sources.core import host_address, limits, port
from sources.providers import table as protocols
from sources.providers.git_host import git_host as forge_port
from sources.providers.git_host import issue, issues
from sources.providers.github import reading as github
from sources.providers.gitlab import reading as gitlab
from tests.sources import reading
from tests.sources.forge import REPOSITORY, Forge
from tests.sources.parts import refused

HOSTS = ("GitHub", "GitLab")
OURS = datetime(2026, 11, 26, 12, tzinfo=UTC)
"""Our clock, years behind the host's."""
TLS = tls_trust.context()


@pytest.fixture
async def forge() -> AsyncIterator[Forge]:
    """A repository without anything."""
    async with Forge().serving() as one:
        yield one


def tracker(one: Forge, host: str, url: str = "", **chosen: Any) -> issues.Tracker:
    spec = {
        "type": host, "clientId": "acme", "secretRef": {"name": "forge"}, "url": url or f"{one.url}/{REPOSITORY}",
        "filter": chosen,
    }  # fmt: skip
    opens = protocols.table(plain=True, tls=TLS, monotonic=lambda: 0.0, wall=lambda: OURS)
    bucket = limits.Bucket(6000, 1000)
    bucket.reserve = lambda now: 0.0  # type: ignore[method-assign]  # the time of a test stands still
    found = opens[connection.Type(host)](connection.Spec.model_validate(spec), {"token": "secret-token"}, bucket)
    assert isinstance(found, issues.Tracker)
    return found


class Store:
    """What the poller keeps: each version of an item once, the cursor after its batch."""

    def __init__(self) -> None:
        self.cursor: port.Cursor = {}
        self.versions: dict[tuple[str, str], port.Item] = {}
        self.latest: dict[str, port.Item] = {}

    async def poll(self, source: port.Source, *, batches: int = 1000) -> int:
        """How many versions are new."""
        before = len(self.versions)
        async for batch in source.batches(self.cursor):
            assert batch.failures == ()
            for one in batch.items:
                if (one.source_id, one.version) not in self.versions:
                    self.versions[one.source_id, one.version] = self.latest[one.source_id] = one
            self.cursor = batch.cursor
            batches -= 1
            if not batches:
                break
        return len(self.versions) - before

    async def places(self, source: port.Source) -> set[str]:
        """The list, which must be complete."""
        pages = [page async for page in source.ids()]
        assert pages[-1].last
        return {place for page in pages for place in page.places}


def place(host: str, number: int, merge: bool) -> str:
    return f"{REPOSITORY}{'!' if merge and host == 'GitLab' else '#'}{number}"


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("seed", range(5))
async def test_nothing_is_lost_while_the_lists_shift(forge: Forge, host: str, seed: int) -> None:
    """Histories in which things are made, changed, spoken about and deleted between any two requests."""
    dice, store = random.Random(seed), Store()
    small: forge_port.Host = github.GitHub(page=7) if host == "GitHub" else gitlab.GitLab(page=7)
    for number in range(40):
        forge.create(f"Issue {number}", merge=dice.random() < 0.2)

    def meanwhile() -> None:
        for _ in range(dice.choice((0, 0, 1, 2))):
            forge.tick(dice.choice((0.0, 0.3, 1.0, 40.0)))
            number = dice.choice(sorted(forge.entries))
            match dice.choice(("create", "late", "change", "say", "edit", "delete")):
                case "create":
                    forge.create("New")
                case "late":
                    forge.create("Late", ago=dice.uniform(1, 120))
                case "change":
                    forge.change(number, f"Title {dice.random()}")
                case "say":
                    forge.say(number, f"Comment {dice.random()}")
                case "edit" if forge.entries[number].comments:
                    one = dice.choice(forge.entries[number].comments)
                    one.body, one.updated = f"Edited {dice.random()}", forge.now
                    if host == "GitLab":
                        forge.entries[number].updated = forge.now
                case "delete" if len(forge.entries) > 20:
                    del forge.entries[number]

    def source() -> issues.Tracker:
        one = tracker(forge, host)
        one._host = small
        return one

    for number in range(8):
        # A mark moves only where a list holds still.
        forge.meanwhile = meanwhile if number % 2 else None
        await store.poll(source(), batches=dice.choice((1, 3, 1000)))
        forge.meanwhile = None
        for _ in range(4):
            meanwhile()
        forge.tick(dice.choice((0.0, 10.0, 600.0)))
    forge.tick(5)
    for _ in range(3):
        await store.poll(source())
    for entry in forge.entries.values():
        text = store.latest[place(host, entry.number, entry.merge)].text
        assert text.startswith(f"{'!' if entry.merge and host == 'GitLab' else '#'}{entry.number} {entry.title}\n")
        assert [one.body in text for one in entry.comments] == [True] * len(entry.comments)
    live = {place(host, entry.number, entry.merge) for entry in forge.entries.values()}
    assert await store.places(source()) == live
    assert await store.poll(source()) == 0


async def test_an_issue_that_changes_between_its_list_and_its_comments_is_one_version(forge: Forge) -> None:
    entry = forge.create("Issue")
    for number in range(3):
        forge.say(entry.number, f"Comment {number}")
    forge.tick(600)

    def meanwhile() -> None:
        asked = forge.requests[-1].partition("?")[0]
        if len(entry.comments) == 3 and asked.endswith(f"/{entry.number}/comments"):
            del entry.comments[0]
            entry.updated = forge.now

    store = Store()
    forge.meanwhile = meanwhile
    assert await store.poll(tracker(forge, "GitHub")) == 1
    assert len(entry.comments) == 2
    forge.tick(600)
    assert await store.poll(tracker(forge, "GitHub")) == 0


@pytest.mark.parametrize("host", HOSTS)
async def test_what_is_unchanged_costs_few_requests(forge: Forge, host: str) -> None:
    for number in range(250):
        forge.create(f"Issue {number}")
        forge.tick(20)
    forge.tick(600)
    store = Store()
    assert await store.poll(tracker(forge, host)) == 250
    lists = {"GitHub": ["comments"] + 6 * ["issues"] + ["comments"], "GitLab": 6 * ["issues"] + ["merge_requests"]}[
        host
    ]
    notes = [one for one in forge.requests if "/notes" in one]
    assert len(notes) == (250 if host == "GitLab" else 0)
    asked = [one.partition("?")[0].rpartition("/")[2] for one in forge.requests if one not in notes]
    assert asked == [{"GitHub": "shop", "GitLab": "acme%2Fshop"}[host], *lists]
    await store.poll(tracker(forge, host))
    forge.requests.clear()
    forge.answers.clear()
    assert await store.poll(tracker(forge, host)) == 0
    assert forge.answers == [200, 304, 304], "GitHub does not count the last two"
    forge.requests.clear()
    assert len(await store.places(tracker(forge, host))) == 250
    # Three pages; GitHub's total before and after, GitLab's empty list of merge requests.
    assert len(forge.requests) == {"GitHub": 3 + 2, "GitLab": 3 + 1}[host]


@pytest.mark.parametrize("host", HOSTS)
async def test_what_follows_a_full_page_is_seen_though_that_page_is_unchanged(forge: Forge, host: str) -> None:
    small: forge_port.Host = github.GitHub(page=7) if host == "GitHub" else gitlab.GitLab(page=7)
    store = Store()

    async def poll() -> int:
        one = tracker(forge, host)
        one._host = small
        return await store.poll(one)

    for number in range(7):
        forge.create(f"Issue {number}")
    forge.tick(60)
    assert [await poll() for _ in range(4)] == [7, 0, 0, 0]
    forge.create("The first one of a second page")
    forge.tick(60)
    assert await poll() == 1


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    ("status", "headers", "body", "pause"),
    [
        (429, {"Retry-After": "77"}, b"{}", 77.0),
        (403, {"Retry-After": "60"}, b'{"message": "You have exceeded a secondary rate limit"}', 60.0),
        (403, {}, b'{"message": "You have exceeded a secondary rate limit. Please wait"}', 60.0),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(OURS.timestamp() + 30)}, b"{}", 30.0),
        (502, {}, b"<html>", None),
    ],
)
async def test_an_error_keeps_what_was_read_and_is_no_end(
    forge: Forge, host: str, status: int, headers: Mapping[str, str], body: bytes, pause: float | None
) -> None:
    for number in range(30):
        forge.say(forge.create(f"Issue {number}").number, "A comment.")
    forge.tick(600)
    store = Store()
    good = [(0, dict[str, str](), b"")]
    forge.fails = good * 13 + [(status, dict(headers), body)]
    with refused(port.Unreachable, retry_after=pause):
        await store.poll(tracker(forge, host))
    assert len(store.versions) >= 10, "what was read before is kept"
    kept = set(store.versions)
    forge.requests.clear()
    await store.poll(tracker(forge, host))
    assert len(store.versions) == 30
    asked = [one for one in forge.requests if "/notes" in one or ("/comments" in one and "issues/comments" not in one)]
    assert len(asked) == 30 - len(kept), "and is not read again"
    forge.fails = [(status, dict(headers), body)]
    with pytest.raises(port.Unreachable):
        await store.places(tracker(forge, host))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>a page to sign in</html>"), (200, b'{"message": "no list"}'), (500, b"{}")]
)
async def test_an_answer_about_one_thing_is_asked_for_again_and_no_list_is_made_of_it(
    forge: Forge, host: str, status: int, body: bytes
) -> None:
    for number in range(30):
        forge.say(forge.create(f"Issue {number}").number, "A comment.")
    forge.tick(600)
    store = Store()
    good = [(0, dict[str, str](), b"")]
    forge.fails = good * 13 + [(status, {}, body)]
    assert await store.poll(tracker(forge, host)) == 30
    forge.fails = [(status, {}, body)]
    with pytest.raises(port.Unreachable):
        await store.places(tracker(forge, host))


@pytest.mark.parametrize("host", HOSTS)
async def test_pages_in_a_circle_and_a_list_that_never_holds_still(forge: Forge, host: str) -> None:
    for number in range(150):
        forge.create(f"Issue {number}")
    forge.loop = True
    with pytest.raises(port.Unreachable, match="circle"):
        await reading.read(tracker(forge, host))
    with pytest.raises(port.Unreachable, match="circle"):
        await Store().places(tracker(forge, host))
    forge.loop = False

    def deleted() -> None:
        del forge.entries[max(forge.entries)]

    forge.meanwhile = deleted
    with pytest.raises(port.Unreachable, match="changes while it is read"):
        await Store().places(tracker(forge, host))
    forge.meanwhile = None
    wrong = b'[{"title": "without a number"}]'
    forge.fails = [(0, {}, b""), (200, {}, wrong), (200, {}, wrong)]
    _, failures, _ = await reading.read(tracker(forge, host))
    assert {failure.title for failure in failures} == {"without a number"}
    good = [(0, dict[str, str](), b"")]
    forge.fails = good * (host == "GitHub") + [(200, {}, wrong)]
    with pytest.raises(port.Unreachable, match="an entry that is not understood"):
        await Store().places(tracker(forge, host))


@pytest.mark.parametrize("host", HOSTS)
async def test_a_time_that_is_not_reached_yet_hides_no_change(forge: Forge, host: str) -> None:
    """Of an import, or of a clock that was wrong once."""
    store = Store()
    forge.create("One")
    forge.create("Other")
    forge.entries[1].updated = forge.now.replace(year=2099)
    assert await store.poll(tracker(forge, host)) == 2
    forge.tick(3600)
    forge.change(2, "Changed")
    assert await store.poll(tracker(forge, host)) == 1
    assert store.latest[place(host, 2, False)].title.endswith("Changed")


@pytest.mark.parametrize("host", HOSTS)
async def test_a_repository_that_is_not_shown_any_more_is_no_empty_one(forge: Forge, host: str) -> None:
    forge.create("One")
    store = Store()
    await store.poll(tracker(forge, host))
    for status, kind in (
        (404, port.Misconfigured),
        (410, port.Misconfigured),
        (403, port.Misconfigured),
        (401, port.Rejected),
    ):
        forge.fails = [(status, {}, b'{"message": "Not Found"}')]
        with pytest.raises(kind):
            await store.poll(tracker(forge, host))
        forge.fails = [(status, {}, b'{"message": "Not Found"}')]
        with pytest.raises(kind):
            await store.places(tracker(forge, host))
    assert "secret-token" in forge.tokens[0]


async def readers(forge: Forge, host: str, cursor: port.Cursor) -> tuple[dict[str, access.Access | None], port.Cursor]:
    """Who may read what a poll has, and the cursor behind it."""
    found: dict[str, access.Access | None] = {}
    async for batch in tracker(forge, host).batches(cursor):
        found |= {one.source_id: one.access for one in batch.items}
        cursor = batch.cursor
    return found, cursor


@pytest.mark.parametrize("host", HOSTS)
async def test_who_may_read_it(forge: Forge, host: str) -> None:
    """A repository that becomes private gives none of its issues a new time."""
    one, other = forge.create("One"), forge.create("Other", merge=True)
    names = [place(host, each.number, each.merge) for each in (one, other)]
    forge.tick(600)
    members = access.restricted([f"group:{host.lower()}-repo:acme/shop"])
    found, cursor = await readers(forge, host, {})
    assert found == dict.fromkeys(names, access.PUBLIC)
    assert (await readers(forge, host, cursor))[0] == {}
    for visibility in ("private", "public", "internal"):
        forge.visibility = visibility
        found, cursor = await readers(forge, host, cursor)
        assert found == dict.fromkeys(names, access.PUBLIC if visibility == "public" else members)
        assert (await readers(forge, host, cursor))[0] == {}


async def test_gitlab_shows_less_of_a_public_project() -> None:
    async with Forge().serving() as forge:
        forge.create("Merge", merge=True)
        secret = forge.create("Secret")
        secret.confidential, forge.merges = True, "private"
        forge.say(secret.number, "For all.")
        forge.say(secret.number, "For the team.").internal = True
        store = Store()
        await store.poll(tracker(forge, "GitLab"))
        assert {one.source_id: one.access for one in store.latest.values()} == {
            "acme/shop!1": access.restricted(["group:gitlab-repo:acme/shop"]),
            "acme/shop#2": access.UNKNOWN,
        }
        text = store.latest["acme/shop#2"].text
        assert ("For all." in text, "For the team." in text) == (True, False)


@pytest.mark.parametrize("host", HOSTS)
async def test_files_of_the_host_are_taken_and_all_others_stay_links(forge: Forge, host: str) -> None:
    secret = "0123456789abcdef" * 2
    if host == "GitHub":
        paths = ["assets/5e0c-11", "files/7/report.pdf", "assets/gone"]
        links = [f"{forge.url}/user-attachments/{path}" for path in paths]
    else:
        paths = [f"{secret}/pixel", f"{secret}/report.pdf", f"{secret}/gone"]
        links = [f"/uploads/{path}" for path in paths]
    forge.files = {paths[0]: b"\x89PNG....", paths[1]: b"%PDF-1.7"}
    body = f"![a]({links[0]}) [b]({links[1]}) [c]({links[2]}) [d](https://elsewhere.example/x.zip)"
    forge.say(forge.create("Files", body=body).number, f"Again {links[1]}")
    store = Store()
    await store.poll(tracker(forge, host))
    [found] = store.latest.values()
    assert [(one.name, one.media_type) for one in found.files] == [
        (f"{paths[0].rpartition('/')[2]}.png", "image/png"), ("report.pdf", "application/pdf"),
    ]  # fmt: skip
    assert found.text.endswith(f"[File not taken: {links[2]}: the host does not give it]")
    assert "https://elsewhere.example/x.zip" in found.text


@pytest.mark.parametrize("host", HOSTS)
async def test_the_list_admits_what_the_poll_admits(forge: Forge, host: str) -> None:
    forge.create("Issue")
    forge.create("Merge", merge=True)
    forge.create("Closed").closed = True
    early = forge.now + timedelta(hours=1)
    forge.tick(7200)
    forge.create("Late")
    for chosen, titles in (
        ({}, {"Issue", "Merge", "Closed", "Late"}),
        ({"query": "type=pulls"}, {"Merge"}),
        ({"query": "type=issues"}, {"Issue", "Closed", "Late"}),
        ({"since": early}, {"Late"}),
    ):
        store = Store()
        await store.poll(tracker(forge, host, **chosen))
        assert {one.title.partition(" ")[2] for one in store.latest.values()} == titles
        assert await store.places(tracker(forge, host, **chosen)) == set(store.latest)


@pytest.mark.parametrize(
    "unit", ["a.", "a-b+", "a/", "a/b.c ", "```", "~~~", "#1.", "fixes ", "x#1/", "[", "\0", "\ud800"]
)
def test_no_text_takes_a_time_that_grows_with_its_square(unit: str) -> None:
    """With a pattern that does so the largest text takes hours."""
    body = unit * (issue.TEXT_BYTES // len(unit))
    at = "2026-11-26T12:00:00Z"
    thing = issue.Thing("acme/shop", "#", 1, "issue", "Long", f"{body} fixes #2", "open", "", at, at)
    found = issue.item("github", thing, (), ())
    assert len(found.text.encode()) <= issue.TEXT_BYTES + 100


def test_a_long_issue_is_cut_and_says_so() -> None:
    at = "2026-11-26T00:00:00Z"
    thing = issue.Thing("a/b", "#", 1, "issue", "Long", "x" * issue.TEXT_BYTES, "open", "", at, at)
    comments = tuple(issue.Comment(str(one), issue.Person(f"p{one}"), at, at, "see #2 " * 50) for one in range(500))
    found = issue.item("github", thing, comments, ())
    assert len(found.text.encode()) < issue.TEXT_BYTES + 100
    assert found.text.endswith("[The text is cut here: it is too long.]")
    assert found.facts is not None
    assert len(found.facts.nodes) <= 64
    assert len(found.facts.relationships) <= 256
    assert found.facts.nodes[0].type == "github_issue"


@pytest.mark.parametrize("text", ["a.", "a/", "#1.", "http://", "fixes ", "x/y#1", "a-"])
def test_references_are_searched_in_the_beginning_of_a_text(text: str) -> None:
    at = "2026-11-26T00:00:00Z"
    body = f"{text * (issue.TEXT_BYTES // len(text))} #77"
    thing = issue.Thing("a/b", "#", 1, "issue", "Long", body, "open", "", at, at)
    found = issue.item("github", thing, (), ()).facts
    assert found is not None
    assert "document::github::a/b#77" not in {one.target for one in found.relationships}


@pytest.mark.parametrize(
    ("kind", "url", "include", "api", "repositories"),
    [
        ("GitHub", "https://github.com/acme/shop", (), "https://api.github.com", ("acme/shop",)),
        ("GitHub", "https://github.com/acme/shop.git", (), "https://api.github.com", ("acme/shop",)),
        ("GitHub", "https://api.github.com/repos/acme/shop", (), "https://api.github.com", ("acme/shop",)),
        ("GitHub", "https://github.com", ("a/b", "c/d"), "https://api.github.com", ("a/b", "c/d")),
        ("GitHub", "https://ghe.example:8443/acme/shop", (), "https://ghe.example:8443/api/v3", ("acme/shop",)),
        ("GitHub", "https://ghe.example/api/v3", ("a/b",), "https://ghe.example/api/v3", ("a/b",)),
        ("GitHub", "https://acme.ghe.com/acme/shop", (), "https://api.acme.ghe.com", ("acme/shop",)),
        ("GitLab", "https://gitlab.example/a/b/c", (), "https://gitlab.example/api/v4", ("a/b/c",)),
        ("GitLab", "https://gitlab.example/a/b/-/issues", (), "https://gitlab.example/api/v4", ("a/b",)),
        ("GitLab", "https://h.example/gitlab", ("a/b",), "https://h.example/gitlab/api/v4", ("a/b",)),
        ("Gitea", "https://git.example/a/b", (), "https://git.example/api/v1", ("a/b",)),
        ("Gitea", "https://h.example/git/a/b", (), "https://h.example/git/api/v1", ("a/b",)),
        ("Gitea", "https://h.example/git", ("a/b",), "https://h.example/git/api/v1", ("a/b",)),
    ],
)
def test_where_a_url_leads(
    kind: str, url: str, include: tuple[str, ...], api: str, repositories: tuple[str, ...]
) -> None:
    secret = {"secretRef": {"name": "forge"}}
    spec = {"type": kind, "clientId": "acme", "url": url, "filter": {"include": include}, **secret}
    rules = protocols.RULES[connection.Type(kind)]
    found = host_address.derive(rules, connection.Spec.model_validate(spec), {"token": "x"}, plain=False)
    assert (found.api, found.names) == (api, repositories)


@pytest.mark.parametrize("host", [*HOSTS, "Gitea"])
@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"url": "https://git.example"}, "spec.filter.include"),
        ({"filter": {"include": ["no-owner"]}}, "spec.filter.include"),
        ({"filter": {"include": ["../api?x"]}}, "spec.filter.include"),
        ({"filter": {"query": "is:open"}}, "spec.filter.query"),
        ({"filter": {"query": "state=broken"}}, "spec.filter.query"),
        ({"secretRef": {"name": "forge", "key": "other"}}, "spec.secretRef"),
        ({"url": "http://git.example/a/b"}, "spec.url"),
    ],
)
def test_what_a_connection_asks_for_and_is_not_there(host: str, changed: dict[str, Any], field: str) -> None:
    spec = {
        "type": host,
        "clientId": "acme",
        "secretRef": {"name": "forge"},
        "url": "https://git.example/a/b",
    } | changed
    opens = protocols.table(plain=False, tls=TLS, monotonic=lambda: 0.0, wall=lambda: OURS)
    with pytest.raises(port.Misconfigured) as caught:
        opens[connection.Type(host)](
            connection.Spec.model_validate(spec),
            {"token": "x"} if field != "spec.secretRef" else {},
            limits.Bucket(60, 1),
        )
    assert caught.value.field == field
    assert caught.value.remedy
