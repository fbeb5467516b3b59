"""A default of the settings is that of what it bounds, which tests and measurements use without settings."""

from __future__ import annotations

from datetime import timedelta
from inspect import signature
from typing import Any

from codegraph.extract import budget
from kb.agent import orchestrator, page_tools, retrieving, running
from kb.files import inside, pages, tika
from kb.ingest import document, lanes
from kb.memory import session
from kb.queue import worker
from kb.service import assembly
from kb.service.http import app
from kb.settings import Settings
from kb.visual import making, served

USUAL = Settings(_env_file=None)


def default(function: Any, name: str) -> Any:
    """The default of an argument."""
    return signature(function).parameters[name].default


def test_of_documents() -> None:
    assert assembly.limits(USUAL) == document.Limits()
    assert inside.Limits(images=USUAL.inside_images) == inside.Limits()
    assert pages.Limits(USUAL.pdf_pages, USUAL.pdf_page_chars) == pages.Limits()
    assert default(tika.Tika, "max_chars") == USUAL.max_chars


def test_of_sources() -> None:
    assert assembly.source_limits(USUAL) == budget.Budget(seconds=USUAL.code_seconds)


def test_of_work_at_once() -> None:
    assert default(lanes.Lanes, "width") == USUAL.lane_width
    assert default(worker.Workers, "general") == USUAL.queue_workers


def test_of_the_decision_agent() -> None:
    limits = orchestrator.Limits(USUAL.agent_iterations, USUAL.agent_tokens, enough=USUAL.agent_enough)
    assert limits == orchestrator.Limits()
    assert running.Bounds(USUAL.agent_seconds, USUAL.agent_parallel) == running.Bounds()
    assert default(retrieving.FastVectorSearchTool, "limit") == USUAL.agent_hits
    assert default(page_tools.VisualInterpretationTool, "pages") == USUAL.agent_interpreted
    assert default(page_tools.VisualInterpretationTool, "pixels") == USUAL.visual_pixels


def test_of_pages_and_memory() -> None:
    assert making.Limits(USUAL.visual_pages, USUAL.pdf_page_chars) == making.Limits()
    assert default(served.Served, "said") == USUAL.visual_prompt
    assert default(session.Sessions, "life") == timedelta(days=USUAL.session_days)


def test_of_requests() -> None:
    assert default(app.build, "buffered") == USUAL.max_buffered_bytes
