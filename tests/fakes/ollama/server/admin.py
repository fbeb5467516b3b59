"""/simulator/*: what tests ask and change while it runs. Real Ollama has nothing of this. A ValueError is a 400."""

from __future__ import annotations

import math
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from tests.fakes.ollama import faults, script
from tests.fakes.ollama.protocol import names
from tests.fakes.ollama.server import information, service


class _Pace(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens_per_second: float | None = Field(None, ge=0)
    prompt_tokens_per_second: float | None = Field(None, ge=0)
    load_seconds_per_gib: float | None = Field(None, ge=0)
    unload_seconds: float | None = Field(None, ge=0)


async def state(asked: web.Request) -> web.Response:
    """GET /simulator/state."""
    owner = asked.app[service.KEY]
    return web.json_response(
        {
            "simulator": information.NAME,
            "settings": owner.settings.model_dump(),
            "loaded": [_runner(record) for record in owner.engine.loaded()],
            "pending": owner.engine.pending(),
            "runner": dict(owner.engine.counters),
            "gates": owner.gates.waiting(),
            "script": owner.script.left(),
            **owner.journal.counters(),
        }
    )


async def requests(asked: web.Request) -> web.Response:
    """GET /simulator/requests?field=value: journal entries, oldest first."""
    return web.json_response({"requests": asked.app[service.KEY].journal.listed(dict(asked.query))})


async def counters(asked: web.Request) -> web.Response:
    """GET /simulator/counters."""
    return web.json_response(asked.app[service.KEY].journal.counters())


async def forget(asked: web.Request) -> web.Response:
    """DELETE /simulator/requests."""
    asked.app[service.KEY].journal.forget()
    return web.json_response({})


async def put_faults(asked: web.Request) -> web.Response:
    """PUT /simulator/faults: a list, see `faults`."""
    asked.app[service.KEY].plan = faults.parse(await asked.json())
    return web.json_response({})


async def put_script(asked: web.Request) -> web.Response:
    """PUT /simulator/script: an object, see `script`."""
    asked.app[service.KEY].script = script.parse(await asked.json())
    return web.json_response({})


async def put_pace(asked: web.Request) -> web.Response:
    """PUT /simulator/pace: any of the four speeds."""
    owner, pace = asked.app[service.KEY], _Pace.model_validate(await asked.json())
    if pace.tokens_per_second is not None:
        owner.pace.tokens_per_second = pace.tokens_per_second
    if pace.prompt_tokens_per_second is not None:
        owner.pace.prompt_tokens_per_second = pace.prompt_tokens_per_second
    owner.engine.set_pace(pace.load_seconds_per_gib, pace.unload_seconds)
    return web.json_response({})


async def finish_loads(asked: web.Request) -> web.Response:
    """PUT /simulator/loads: those under way end now."""
    asked.app[service.KEY].engine.finish_loads()
    return web.json_response({})


async def end_runner(asked: web.Request) -> web.Response:
    """DELETE /simulator/runners/{model}: its process ends now, as SIGKILL ends it."""
    asked.app[service.KEY].engine.crash(names.canonical(asked.match_info["model"]))
    return web.json_response({})


async def open_gate(asked: web.Request) -> web.Response:
    """PUT /simulator/gates/{gate}."""
    asked.app[service.KEY].gates.open(asked.match_info["gate"])
    return web.json_response({})


async def shut_gate(asked: web.Request) -> web.Response:
    """DELETE /simulator/gates/{gate}: requests wait there again."""
    asked.app[service.KEY].gates.shut(asked.match_info["gate"])
    return web.json_response({})


def _runner(record: dict[str, Any]) -> dict[str, Any]:
    left = record["expires_in"]
    return record | {"model": record["model"].name, "expires_in": left if math.isfinite(left) else None}
