"""Everything a handler may use, put together once by `app.build`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from aiohttp import web

from tests.fakes.ollama import catalogue, faults, script, settings, tesseract
from tests.fakes.ollama.embedding import minilm
from tests.fakes.ollama.runner import engine
from tests.fakes.ollama.server import gates, journal


@dataclass
class Pace:
    """Speeds, in tokens per second; 0 means at once."""

    tokens_per_second: float
    prompt_tokens_per_second: float


@dataclass
class Service:
    """One simulated server. `now` is the wall clock of the documents it sends."""

    settings: settings.Settings
    catalogue: catalogue.Catalogue
    engine: engine.Engine
    embedder: minilm.Embedder
    pace: Pace
    now: Callable[[], datetime]
    keep_alive: float
    plan: faults.Plan
    script: script.Script
    journal: journal.Journal = field(default_factory=journal.Journal)
    gates: gates.Gates = field(default_factory=gates.Gates)
    reader: tesseract.Reader = field(default_factory=tesseract.Reader)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()


KEY: web.AppKey[Service] = web.AppKey("service", Service)
