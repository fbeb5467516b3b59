"""What a client hears whose request got no slot."""

from __future__ import annotations

from collections.abc import Mapping

from router.effects import Reason
from router.proxy.refusal import Refusal

# Reason -> (status, Retry-After in seconds, text; {model} is the client's spelling).
_TURNED: Mapping[Reason, tuple[int, int | None, str]] = {
    Reason.UNKNOWN_MODEL: (404, None, "model '{model}' not found"),  # word for word Ollama's
    Reason.OTHER_API: (
        400,
        None,
        "model '{model}' is served by a backend of engine OpenAI, which has no /api: ask for it by /v1, for example "
        "/v1/chat/completions",
    ),
    Reason.INCAPABLE: (
        400,
        None,
        "no GpuBackend that serves model '{model}' may do this: add generate, embed or vision to its spec.capabilities",
    ),
    Reason.NO_BACKEND: (503, 5, "no GpuBackend is configured; apply one or set GPU_BACKENDS"),
    Reason.QUEUE_FULL: (503, 5, "server busy, please try again. the router's queue is full"),
    Reason.CLIENT_QUEUE_FULL: (429, 5, "too many requests of this client are waiting, please try again"),
    Reason.DEADLINE: (408, 30, "the request waited for a slot of model '{model}' for too long"),
    Reason.EXHAUSTED: (503, 2, "no other backend that serves model '{model}' is available, please try again"),
    Reason.STEPPED_DOWN: (503, 2, "another router decides now, please try again"),
    Reason.UNAVAILABLE: (
        503,
        2,
        "no backend that serves model '{model}' is available at the moment, please try again",
    ),
}


def refusal(reason: Reason, model: str) -> Refusal:
    """What a client hears when there is no slot. `model` comes from it and may be of any length."""
    status, retry_after, text = _TURNED[reason]
    said = (
        text.format(model=model[:256])
        if model
        else text.replace(" of model '{model}'", "").replace(" that serves model '{model}'", "")
    )
    return Refusal(status, said, retry_after=retry_after, reason=reason)
