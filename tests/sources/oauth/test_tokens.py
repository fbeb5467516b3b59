"""Access tokens against a token endpoint of our own and a real MongoDB wire: renewed, rotated, refused, never twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from clients import tls_trust
from sources.core import hosts, port
from sources.oauth import exchange, grant, tokens, vault
from tests.sources.oauth import endpoint

pytestmark = pytest.mark.services
OF = ("team", "mailbox")


class Replica:
    """One process: memory of its own, the endpoint and MongoDB in common."""

    def __init__(self, place: endpoint.Endpoint, database: Any, *, seconds: float = 60.0) -> None:
        self.clock = 0.0
        self.skew = timedelta()
        self.vault = vault.Vault(database, lasts=seconds)

        async def sleep(_: float) -> None:
            await asyncio.sleep(0.01)

        self.tokens = tokens.Tokens(
            self.vault,
            exchange.Exchange(hosts.LOCAL, tls_trust.context(), wall=lambda: place.now + self.skew),
            plain=True,
            wall=lambda: place.now,
            monotonic=lambda: self.clock,
            sleep=sleep,
        )

    async def access(self, secret: dict[str, str]) -> str:
        return (await self.tokens.fresh(OF, secret))[port.ACCESS_KEY]


Replicas = Callable[..., Replica]


@pytest.fixture
async def place() -> AsyncIterator[endpoint.Endpoint]:
    async with endpoint.running() as made:
        yield made


@pytest.fixture
def replica(place: endpoint.Endpoint, database: Any) -> Replicas:
    return lambda **more: Replica(place, database, **more)


async def test_a_token_is_kept_and_renewed_before_its_end(place: endpoint.Endpoint, replica: Replicas) -> None:
    one = replica()
    values = await one.tokens.fresh(OF, place.secret(username="ada"))
    assert values["username"] == "ada"
    assert values[port.ACCESS_KEY] == "access-token-0"
    assert not tokens.OF_OAUTH & values.keys(), "no protocol is given what makes tokens"
    one.clock = 2999.0
    assert await one.access(place.secret()) == "access-token-0"
    one.clock = 3001.0
    assert await one.access(place.secret()) == "access-token-1"
    assert place.spent == ["refresh-token-0", "refresh-token-1"], "the one that replaced it was spent"


async def test_a_rotated_token_outlives_the_process_and_is_sealed(
    place: endpoint.Endpoint, replica: Replicas, database: Any
) -> None:
    await replica().access(place.secret())
    (row,) = [one async for one in database[vault.ROWS].find()]
    assert endpoint.FIRST not in str(row)
    assert "refresh-token-1" not in str(row)
    assert "access-token" not in str(row)
    assert await replica().access(place.secret()) == "access-token-1"
    assert place.spent == ["refresh-token-0", "refresh-token-1"]


async def test_two_replicas_never_spend_one_token(place: endpoint.Endpoint, replica: Replicas) -> None:
    replicas = [replica() for _ in range(6)]
    found = await asyncio.gather(*(one.access(place.secret()) for one in replicas))
    assert sorted(found) == [f"access-token-{number}" for number in range(6)]
    assert sorted(place.spent) == [f"refresh-token-{number}" for number in range(6)], "each was spent once"


async def test_many_calls_of_a_process_renew_once(place: endpoint.Endpoint, replica: Replicas) -> None:
    one = replica()
    assert set(await asyncio.gather(*(one.access(place.secret()) for _ in range(10)))) == {"access-token-0"}
    assert place.spent == [endpoint.FIRST]


async def test_who_writes_a_new_secret_wins(place: endpoint.Endpoint, replica: Replicas) -> None:
    one = replica()
    await one.access(place.secret())
    place.good = {"new-by-a-person"}
    assert await one.access(place.secret(refresh_token="new-by-a-person")) == "access-token-1"
    assert place.spent == [endpoint.FIRST, "new-by-a-person"]


async def test_a_revoked_token_is_rejected_with_what_to_do(place: endpoint.Endpoint, replica: Replicas) -> None:
    one = replica()
    place.good.clear()
    with pytest.raises(port.Rejected, match=r"invalid_grant") as caught:
        await one.access(place.secret())
    assert caught.value.field == "spec.secretRef"
    assert "new refresh_token" in str(caught.value.remedy)
    place.good.add(endpoint.FIRST)
    assert await one.access(place.secret()) == "access-token-0", "the turn was given back"


async def test_an_old_token_that_comes_again_ends_the_family(
    place: endpoint.Endpoint, replica: Replicas, database: Any
) -> None:
    """What a restored backup of MongoDB does: the old token is refused, and a person has to consent again."""
    await replica().access(place.secret())
    await database[vault.ROWS].delete_many({})
    with pytest.raises(port.Rejected, match="revoked"):
        await replica().access(place.secret())
    assert place.good == set()


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ((401, '{"error":"invalid_client"}', {}), port.Rejected, "refuses the client"),
        ((400, '{"error":"invalid_scope"}', {}), port.Misconfigured, "invalid_scope"),
        ((400, '{"error":"interaction_required"}', {}), port.Rejected, "interaction_required"),
        ((200, "<html>Sign in</html>", {"Content-Type": "text/html"}), port.Unreachable, "no object of JSON"),
        ((200, "[1]", {}), port.Unreachable, "no object of JSON"),
        ((200, '{"token_type":"Bearer"}', {}), port.Unreachable, "without an access token"),
        ((200, "x" * 300_000, {}), port.Unreachable, "more than"),
        ((302, "", {"Location": "http://127.0.0.1:1/"}), port.Misconfigured, "302"),
        ((404, "<html>", {}), port.Misconfigured, "404"),
        ((503, "", {}), port.Unreachable, "503"),
        ((429, "", {"Retry-After": "30"}), port.Unreachable, "429"),
    ],
)
async def test_an_answer_means_one_thing(
    place: endpoint.Endpoint,
    replica: Replicas,
    answer: tuple[int, str, dict[str, str]],
    kind: type[Exception],
    said: str,
) -> None:
    place.answer = answer
    one = replica()
    with pytest.raises(kind, match=said) as caught:
        await one.access(place.secret())
    assert type(caught.value) is kind
    assert endpoint.WORD not in str(caught.value)
    place.answer = None
    assert await one.access(place.secret()) == "access-token-0"


async def test_text_of_another_type_that_is_json_is_taken(place: endpoint.Endpoint, replica: Replicas) -> None:
    said = '{"access_token": "a", "expires_in": "20", "scope": "fewer"}'
    place.answer = (200, said, {"Content-Type": "text/plain"})
    one = replica()
    assert await one.access(place.secret(scope="more and more")) == "a"
    one.clock = 9.0
    place.answer = (503, "", {})
    assert await one.access(place.secret(scope="more and more")) == "a"


async def test_an_endpoint_that_is_away_costs_nothing_while_the_token_is_good(
    place: endpoint.Endpoint, replica: Replicas
) -> None:
    one = replica()
    await one.access(place.secret())
    place.answer = (503, "", {})
    one.clock = 3599.0
    assert await one.access(place.secret()) == "access-token-0"
    one.clock = 3601.0
    with pytest.raises(port.Unreachable):
        await one.access(place.secret())


async def test_a_slow_endpoint_is_left_alone(
    place: endpoint.Endpoint, replica: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SECONDS", 0.2)
    place.replies = asyncio.Event()
    with pytest.raises(port.Unreachable, match="did not answer"):
        await replica().access(place.secret())


async def test_a_source_that_refuses_a_token_gets_another(place: endpoint.Endpoint, replica: Replicas) -> None:
    one = replica()
    await one.access(place.secret())
    one.tokens.forget(OF)
    assert await one.access(place.secret()) == "access-token-1"


async def test_a_turn_that_ended_writes_nothing_over_its_successor(place: endpoint.Endpoint, replica: Replicas) -> None:
    one, made = replica(), grant.of(place.secret(), plain=True)
    assert made is not None
    frozen = await one.vault.claim(made, "frozen", place.now)
    assert frozen is not None
    assert await one.vault.claim(made, "other", place.now) is None
    later = await one.vault.claim(made, "other", place.now + timedelta(seconds=61))
    assert later is not None
    assert await one.vault.end(later, "newer")
    assert not await one.vault.end(frozen, "older")
    last = await one.vault.claim(made, "third", place.now)
    assert last is not None
    assert last.refresh == "newer"


@pytest.mark.parametrize("hours", [-3, 0, 3])
async def test_a_github_app_signs_by_the_clock_of_the_host(
    place: endpoint.Endpoint, replica: Replicas, hours: int
) -> None:
    one = replica()
    one.skew = timedelta(hours=hours)
    assert await one.access(place.app()) == "installation-token-0"
    assert place.app_calls == (1 if hours == 0 else 2)
    one.clock = 2990.0
    assert await one.access(place.app()) == "installation-token-0"
    one.clock = 3010.0
    place.now += timedelta(seconds=3010)
    assert await one.access(place.app()) == "installation-token-1"
    assert place.app_calls == (2 if hours == 0 else 3), "the difference is known by then"


async def test_a_github_app_that_is_refused(place: endpoint.Endpoint, replica: Replicas) -> None:
    one = replica()
    place.answer = (401, '{"message": "Bad credentials"}', {})
    with pytest.raises(port.Rejected, match="Bad credentials") as caught:
        await one.access(place.app())
    assert "private_key" in str(caught.value.remedy)
    place.answer = (404, '{"message": "Not Found"}', {})
    with pytest.raises(port.Misconfigured, match="404"):
        await one.access(place.app())
    with pytest.raises(port.Misconfigured, match="no RSA key"):
        await one.access(place.app(private_key="-----BEGIN"))


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ({"provider": "yahoo", "client_id": "c", "refresh_token": "r"}, "provider"),
        ({"provider": "google", "client_id": "c"}, "lacks refresh_token"),
        ({"client_id": "c", "refresh_token": "r"}, "lacks token_url"),
        ({"provider": "github-app", "app_id": "1"}, "lacks installation_id and private_key"),
        ({"token_url": "http://h/t", "client_id": "c", "refresh_token": "r"}, "no https"),
        ({"token_url": "https://u:p@h/t", "client_id": "c", "refresh_token": "r"}, "a login"),
        ({"provider": "microsoft", "tenant": "a/b", "client_id": "c", "refresh_token": "r"}, "tenant"),
    ],
)
def test_a_secret_that_is_half_done_says_what_it_lacks(secret: dict[str, str], said: str) -> None:
    with pytest.raises(port.Misconfigured, match=said) as caught:
        grant.of(secret, plain=False)
    assert caught.value.remedy


def test_known_providers_have_their_endpoints() -> None:
    def url(**secret: str) -> str:
        found = grant.of({"client_id": "c", "refresh_token": "r", **secret}, plain=False)
        assert found is not None
        return found.token_url

    assert url(provider="microsoft") == "https://login.microsoftonline.com/common/oauth2/v2.0/token"
    assert url(provider="microsoft", tenant="acme.example").split("/")[3] == "acme.example"
    assert url(provider="google", token_url="https://h/t") == "https://h/t"
    assert grant.of({"username": "u", "password": "p"}, plain=False) is None
