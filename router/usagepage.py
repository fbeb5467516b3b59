"""`GET /router/usage`: today's requests and tokens, one's own or, for an administrator, all callers'."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import date

from pydantic import AwareDatetime, Field

from contracts import openapi
from router import auth, status
from router.proxy.message import Reply, Request
from router.usage import Count, Usage


class Used(status.Wire):
    """What one identity has used today."""

    identity: str = Field(description="the name of a token or service account; run/CLIENT for the runs of a client")
    requests: int = Field(description="inference requests that a backend answered")
    prompt_tokens: int
    answer_tokens: int
    tokens_per_day: int | None = Field(default=None, description="the limit of the token; null for none")
    tokens_left: int | None = Field(default=None, description="what is left of it")


class UsageOfDay(status.Wire):
    """A day in UTC."""

    day: date
    resets: AwareDatetime = Field(description="when the next day begins")
    identities: list[Used]


def routes(
    usage: Usage, limits: Callable[[], Mapping[str, int]]
) -> Mapping[str, Callable[[Request], Awaitable[Reply]]]:
    """The handler by path. `limits` are tokens a day by identity."""

    async def show(request: Request) -> Reply:
        identity = request.identity
        if not identity.name:
            raise auth.refused("usage is counted for callers with a token")
        known = limits()
        if identity.admin:
            counts = usage.today()
            counts |= {name: Count() for name in known if name not in counts}
        else:
            counts = {identity.account: usage.used(identity.account)}
            limit = None if identity.rights is None else identity.rights.tokens_per_day
            known = {} if limit is None else {identity.account: limit}
        found = [_used(name, count, known.get(name)) for name, count in sorted(counts.items())]
        document = UsageOfDay(day=usage.day, resets=usage.resets(), identities=found)
        return Reply(body=document.model_dump_json(by_alias=True).encode())

    return {"/router/usage": show}


def operation() -> openapi.Operation:
    """For the OpenAPI document."""
    answers = {
        200: openapi.Answer("Your own; those of all callers for an administrator", openapi.json(UsageOfDay)),
        401: openapi.Answer("No token was shown: nothing is counted"),
    }
    return openapi.Operation("GET", "/router/usage", "Requests and tokens since midnight (UTC)", answers)


def _used(name: str, count: Count, limit: int | None) -> Used:
    return Used(
        identity=name,
        requests=count.requests,
        prompt_tokens=count.prompt,
        answer_tokens=count.answer,
        tokens_per_day=limit,
        tokens_left=None if limit is None else max(0, limit - count.tokens),
    )
