"""The router's client for Python, and what every caller of a model does: the only way from other packages to a model.

`calls` makes requests, `schema` what is sent as the shape of an answer, `reading` what is read of one, `asking` the
loop of both. Callers: kb, the controllers, the orchestrator's Job, the command line. I import nothing of the router's
own process but the models of its answers.
"""

from router.client.calls import (
    CONNECT,
    SILENCE,
    Broken,
    Client,
    NoNumber,
    OtherApi,
    Rejected,
    Reply,
    Taken,
    TooLong,
    Unauthorized,
    Unavailable,
    UnknownModel,
    few,
    token_file,
    transport,
)
from router.client.choosing import ToolCall

__all__ = [
    "CONNECT",
    "SILENCE",
    "Broken",
    "Client",
    "NoNumber",
    "OtherApi",
    "Rejected",
    "Reply",
    "Taken",
    "TooLong",
    "ToolCall",
    "Unauthorized",
    "Unavailable",
    "UnknownModel",
    "few",
    "token_file",
    "transport",
]
