"""What the token of a caller allows, for one request."""

from __future__ import annotations

from router.proxy.message import Request
from router.proxy.paths import Kind
from router.proxy.refusal import Cause, Refusal
from router.rights import Rights
from router.usage import Usage


def check(rights: Rights, request: Request, kind: Kind, asked: str, model: str, usage: Usage) -> None:
    """Raises Refusal: 403 for a model that `rights` do not name, 429 when today's tokens are used up. `asked` is the
    model as the client spells it, `model` its normalised name without aliases."""
    if kind is Kind.ADMIN or request.method == b"OPTIONS":
        return
    model_of(rights, request, asked, model)
    who = request.identity.name
    limit = rights.tokens_per_day
    if kind is not Kind.INFERENCE or limit is None:
        return
    used = usage.used(request.identity.account).tokens
    if used >= limit:
        raise Refusal(
            429,
            f"{who!r} has used {used} of {limit} tokens today; the next day begins at {usage.resets():%FT%TZ}",
            retry_after=usage.seconds_left(),
            reason=Cause.TOKENS_USED,
            model=asked,
        )


def model_of(rights: Rights, request: Request, asked: str, model: str) -> None:
    """The same for the model alone."""
    if not rights.may_use(model):
        assert rights.models is not None
        may = ", ".join(rights.models.entries) or "no model"
        what = f"model {asked[:200]!r}" if model else "a request that names no model"
        raise Refusal(
            403,
            f"the token of {request.identity.name!r} does not allow {what}; it allows {may}",
            reason=Cause.NOT_ALLOWED,
            model=asked,
        )
