"""The OpenAPI document of the history, the queue, the state of namespaces for runs, and which runs there are.

Made from the wire models and the bounds that parameters are checked against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contracts import openapi
from contracts.api import cluster_state, history, queue_api
from contracts.tokens import live_runs, runtoken
from controllers.archive import query, wire
from crds import VERSION, phases

_TICKET = f"A token of the namespace's ServiceAccount for history, with the audience {history.AUDIENCE}."
_RUN = f"The token of a run, with the audience {runtoken.OPERATOR}."
STATE = "/api/v1/cluster-state"
LOG = "/api/v1/cluster-state/logs/{pod}"
_PARAMETERS = (
    openapi.parameter("namespace", text="Nothing else than the namespace of the ticket."),
    openapi.parameter("client", text="Only tasks of this client."),
    openapi.parameter(
        "phase",
        text="Only tasks that ended so.",
        schema={**openapi.TEXT, "enum": sorted(phase.value for phase in phases.TERMINAL)},
    ),
    openapi.parameter("name", text="Only tasks of this name; there may have been several, one after the other."),
    openapi.parameter(
        "limit",
        text="Maximum number of tasks.",
        schema={"type": "integer", "minimum": 1, "maximum": query.MOST, "default": query.USUAL},
    ),
    openapi.parameter("since", text="Only tasks that ended at this RFC 3339 time or later."),
    openapi.parameter("before", text="Only tasks that ended before this RFC 3339 time; or `next` of the page before."),
)
_QUEUE_PARAMETERS = (
    *_PARAMETERS[:2],
    openapi.parameter(
        "limit",
        text="Maximum number of waiting tasks.",
        schema={"type": "integer", "minimum": 1, "maximum": query.MOST, "default": query.MOST},
    ),
)
_STATE_PARAMETERS = (
    openapi.parameter(
        "parts",
        text=f"Which, with commas: {', '.join(cluster_state.Part)}; pods, workloads and events unless given.",
    ),
    openapi.parameter("name", text="Only things with this in their name."),
    openapi.parameter(
        "limit",
        text="Maximum number of things of one part.",
        schema={"type": "integer", "minimum": 1, "maximum": cluster_state.MOST, "default": cluster_state.USUAL},
    ),
)
_LOG_PARAMETERS = (
    openapi.parameter("pod", place="path", required=True, text="Its name."),
    openapi.parameter("container", text="Needed where the pod has several."),
    openapi.parameter("previous", text="Of the container before its last restart.", schema={"type": "boolean"}),
    openapi.parameter(
        "lines",
        text="How many of the last lines.",
        schema={"type": "integer", "minimum": 1, "maximum": cluster_state.LOG_LINES, "default": 100},
    ),
)
_OF_RUNS = (400, 401, 403, 429, 503)
_UID = (openapi.parameter("uid", place="path", required=True, schema={**openapi.TEXT, "format": "uuid"}),)
_QUEUE_CODES = (400, 401, 403, 429, 503)
_FAILURES = {
    400: "A parameter is wrong; the error names it and the remedy.",
    401: "No ticket or token, or one that is not valid (any more).",
    403: "The ticket is for another namespace, or the token for a run that is not shown this.",
    404: "Nothing is known of a task of that uid in this namespace; or there is no such log.",
    429: "The namespace asks too often; ask again after Retry-After seconds, or follow the events.",
    503: "MongoDB is away, the operator starts, or too many listen; ask again after Retry-After seconds.",
}
_RETRY = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    page = "Finished tasks, the latest first"
    result = "What the last run of a task stored; of one that lives as well"
    trace = "What the runs of a task did, as a tree of nodes and delegations; of one that runs up to now"
    made_too = "What the result of a task has beside its answer: artifacts and changed files"
    queue = "What waits, for what, and since when"
    changes = "The same as server-sent events: `event: queue` with the document as `data` whenever it changes"
    state = "The state of the namespace of a run's task, where the release shows it"
    log = "The end of the log of one of its containers, where the namespace allows it"
    runs = "Which runs there are, signed with the key of run tokens, for the services that take these"
    stream = {"text/event-stream": openapi.TEXT}
    made = openapi.document(
        "Jervis history and queue",
        VERSION,
        [
            _get("/api/v1/history", page, _PARAMETERS, openapi.json(wire.Page), 400, 401, 403, 503),
            _get(
                "/api/v1/history/{uid}",
                "Everything about one of them",
                _UID,
                openapi.json(wire.Whole),
                *(400, 401, 404, 503),
            ),
            _get("/api/v1/results/{uid}", result, _UID, openapi.json(wire.Result), 400, 401, 404, 503),
            _get("/api/v1/traces/{uid}", trace, _UID, openapi.json(history.Trace), 400, 401, 404, 503),
            _get("/api/v1/artifacts/{uid}", made_too, _UID, openapi.json(history.Artifacts), 400, 401, 404, 503),
            _get(
                "/api/v1/artifacts/{uid}/{key}",
                "One stored content of these",
                (*_UID, openapi.parameter("key", place="path", required=True, text="Its key.")),
                openapi.json(history.Content),
                *(400, 401, 404, 503),
            ),
            _get("/api/v1/queue", queue, _QUEUE_PARAMETERS, openapi.json(queue_api.Queue), *_QUEUE_CODES),
            _get("/api/v1/queue/events", changes, _QUEUE_PARAMETERS, stream, *_QUEUE_CODES),
            _get(STATE, state, _STATE_PARAMETERS, openapi.json(cluster_state.State), *_OF_RUNS),
            _get(LOG, log, _LOG_PARAMETERS, openapi.json(cluster_state.Log), *sorted((*_OF_RUNS, 404))),
            _get(live_runs.PATH, runs, (), {"application/jwt": openapi.TEXT}, 503),
        ],
        mode="serialization",
    )
    made["components"]["securitySchemes"] = {
        "ticket": {"type": "apiKey", "in": "header", "name": history.TICKET_HEADER, "description": _TICKET},
        "bearer": {"type": "http", "scheme": "bearer", "description": _TICKET},
        "run": {"type": "http", "scheme": "bearer", "description": _RUN},
    }
    for path in (STATE, LOG):
        made["paths"][path]["get"]["security"] = [{"run": []}]
    made["paths"][live_runs.PATH]["get"]["security"] = []
    return {**made, "security": [{"ticket": []}, {"bearer": []}]}


def _get(
    path: str, text: str, parameters: Sequence[Mapping[str, Any]], content: openapi.Content, *codes: int
) -> openapi.Operation:
    answers = {200: openapi.Answer(text, content)}
    for code in codes:
        headers = _RETRY if code in (429, 503) else {}
        answers[code] = openapi.Answer(_FAILURES[code], openapi.json(wire.Failure), headers)
    return openapi.Operation("GET", path, text, answers, parameters)
