"""What the knowledge base counts. The registry is an argument, so that each process (and test) has its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from contracts import otel_spans

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class _Stage:
    def __init__(self, name: str, seconds: Histogram, traced: otel_spans.Spans) -> None:
        self._name = name
        self._seconds = seconds
        self._spans = traced

    @contextmanager
    def time(self) -> Iterator[None]:
        """Measure a `with`, and make it a span."""
        with self._seconds.labels(self._name).time(), self._spans.span(f"kb.{self._name}"):
            yield


class Stages:
    """Stages of ingest and retrieval: each is measured, and a span where spans are asked for."""

    def __init__(self, seconds: Histogram, traced: otel_spans.Spans) -> None:
        self._seconds = seconds
        self._spans = traced

    def labels(self, stage: str) -> _Stage:
        """The stage of that name."""
        return _Stage(stage, self._seconds, self._spans)


class Metrics:
    """The meters of one process, and its spans."""

    def __init__(self, registry: CollectorRegistry, traced: otel_spans.Spans | None = None) -> None:
        self.registry = registry
        self.spans = traced or otel_spans.Off()
        self.requests = Counter("jervis_kb_requests", "Finished HTTP requests.", ("route", "status"), registry=registry)
        self.seconds = Histogram(
            "jervis_kb_request_seconds", "Time to answer.", ("route",), buckets=_SECONDS, registry=registry
        )
        stages = Histogram(
            "jervis_kb_stage_seconds", "Time in a stage of ingest or retrieval.", ("stage",), buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self.stages = Stages(stages, self.spans)
        self.ingested = Counter("jervis_kb_ingests", "Documents by outcome.", ("outcome",), registry=registry)
        self.commits = Counter(
            "jervis_kb_git_commits", "Commits of repositories by what became of them.", ("outcome",), registry=registry
        )
        self.hidden = Counter(
            "jervis_kb_hidden_parts", "Parts of documents that their reader does not see.", ("kind",), registry=registry
        )
        self.chunks = Counter("jervis_kb_chunks", "Chunks ingested.", registry=registry)
        self.embedded = Counter("jervis_kb_embedded_texts", "Texts sent to the embedding model.", registry=registry)
        self.embedded_in_pieces = Counter(
            "jervis_kb_embedded_in_pieces",
            "Texts longer than the embedding model's window, by who found them so (window, server).",
            ("by",),
            registry=registry,
        )
        self.answers = Counter(
            "jervis_kb_model_answers",
            "Structured answers by prompt and origin (model, cache, invalid).",
            ("prompt", "origin"),
            registry=registry,
        )
        self.answer_problems = Counter(
            "jervis_kb_answer_problems",
            "What was repaired in structured answers or left out of them, by prompt and field.",
            ("prompt", "field"),
            registry=registry,
        )
        self.qualify_seconds = Histogram(
            "jervis_kb_qualify_phase_seconds", "Time in a phase of the qualifier.", ("phase",), buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self.qualify_calls = Counter(
            "jervis_kb_qualify_calls", "Calls of models by phase of the qualifier.", ("phase",), registry=registry
        )
        self.qualify_errors = Counter(
            "jervis_kb_qualify_errors",
            "What a phase of the qualifier could not find out.",
            ("phase",),
            registry=registry,
        )
        self.ruled = Counter(
            "jervis_kb_ruled", "Documents whose route a hard rule decided.", ("route",), registry=registry
        )
        self.insufficient = Counter(
            "jervis_kb_insufficient_evidence", "Questions whose evidence may not answer them.", registry=registry
        )
        self.dropped = Counter(
            "jervis_kb_dropped_relationships", "Relationships without a verbatim sentence.", registry=registry
        )
        self.lanes = Gauge("jervis_kb_lane_writers", "Writers by lane and state.", ("lane", "state"), registry=registry)
        self.buffered = Gauge("jervis_kb_buffered_bytes", "What JSON bodies of requests hold.", registry=registry)
        self.repaired = Counter(
            "jervis_kb_repairs", "Places where the stores disagreed and were made to agree.", registry=registry
        )
        self.lost = Gauge(
            "jervis_kb_lost_chunks",
            "Chunks whose text is gone, as far as the stores were compared.",
            registry=registry,
        )
        self.passes = Counter(
            "jervis_kb_reconcile_passes",
            "Comparisons of the stores that ended: of everything (full), of what was changed (changed).",
            ("kind",),
            registry=registry,
        )
        self.unfinished = Gauge("jervis_kb_unfinished_ingests", "Documents whose ingest is open.", registry=registry)
        self.failed = Gauge("jervis_kb_failed_documents", "Documents whose last request failed.", registry=registry)
        self.queued = Gauge(
            "jervis_kb_queued_extractions", "Documents that wait for extraction.", ("priority",), registry=registry
        )
        self.jobs = Counter("jervis_kb_queue_jobs", "Jobs of the queue by outcome.", ("outcome",), registry=registry)
        self.links = Counter(
            "jervis_kb_links", "Links that were to be read, by outcome.", ("outcome",), registry=registry
        )
        self.uploads = Counter(
            "jervis_kb_uploads", "Files and images by media type and outcome (taken, refused).", ("type", "outcome"),
            registry=registry,
        )  # fmt: skip
        self.pages = Counter(
            "jervis_kb_pdf_pages", "Pages of PDFs with little text, by outcome (seen, missed).", ("outcome",),
            registry=registry,
        )  # fmt: skip
        self.reranked = Counter(
            "jervis_kb_reranks", "Questions whose candidates went to the reranker, by outcome (done, late, failed).",
            ("outcome",), registry=registry,
        )  # fmt: skip
        self.tools = Counter(
            "jervis_kb_tool_calls", "Calls of tools by tool and outcome (ok, or the error's code).",
            ("tool", "outcome"), registry=registry,
        )  # fmt: skip
        self.agent_questions = Counter(
            "jervis_kb_agent_questions",
            "Questions to the decision agent by outcome (answered, impossible, failed, cancelled).",
            ("outcome",), registry=registry,
        )  # fmt: skip
        self.agent_running = Gauge(
            "jervis_kb_agent_running", "Questions that the decision agent works on.", registry=registry
        )
        self.agent_decisions = Counter(
            "jervis_kb_agent_decisions",
            "Answers of the decision model: chosen, repaired, invalid, repeated, unusable.",
            ("outcome",), registry=registry,
        )  # fmt: skip
        self.agent_tools = Counter(
            "jervis_kb_agent_tool_calls", "Calls of the decision agent's tools by outcome (ok, error).",
            ("tool", "outcome"), registry=registry,
        )  # fmt: skip
        self.agent_quotes = Counter(
            "jervis_kb_agent_dropped_quotes", "Sentences of answers that were left out, by what is wrong.",
            ("verdict",), registry=registry,
        )  # fmt: skip
        self.erasures = Gauge("jervis_kb_running_erasures", "Scopes that are being erased.", registry=registry)
        self.erased = Counter(
            "jervis_kb_erased_documents", "Documents deleted because their scope was erased.", registry=registry
        )
        self.leading = Gauge(
            "jervis_kb_leading",
            "1 in the process that compares the stores, erases and resumes merges for all.",
            registry=registry,
        )
        self.expired = Counter(
            "jervis_kb_expired_versions", "Versions of documents forgotten after their time.", registry=registry
        )
        self.loop_errors = Counter(
            "jervis_kb_loop_errors",
            "Errors that were not foreseen in what runs as long as the process; it goes on.",
            ("loop",),
            registry=registry,
        )
        self.swept = Counter("jervis_kb_swept_contents", "Stored contents deleted as unused.", registry=registry)
        self.code_files = Counter(
            "jervis_kb_code_files", "Source files by what became of them: read, or the reason why not.", ("outcome",),
            registry=registry,
        )  # fmt: skip
        self.code_workers = Counter(
            "jervis_kb_code_worker_seconds", "Time of the worker processes that read source files.", registry=registry
        )
        self.code_resolution = Histogram(
            "jervis_kb_code_resolution_seconds", "Time to resolve a branch.", buckets=_SECONDS, registry=registry
        )
        self.code_branches = Gauge(
            "jervis_kb_code_branches",
            "Branches whose code is known, by state (current, behind, first), as the process knows that leads.",
            ("state",),
            registry=registry,
        )
        self.code_stale = Gauge(
            "jervis_kb_code_stale_seconds",
            "Since the last step of the branch that has waited longest for the code of its latest commit; 0 for none.",
            registry=registry,
        )
        self.reindexed = Counter(
            "jervis_kb_reindexed", "Chunks and sentences copied into the index of a new model.", registry=registry
        )
        self.reindex_phase = Gauge(
            "jervis_kb_reindex_phase",
            "0 Preparing, 1 Copying, 2 Switched, 3 Dropping, 4 Done, as the process knows that leads; else -1.",
            registry=registry,
        )
        self.reindex_phase.set(-1)
        self.reindex_chunks = Gauge(
            "jervis_kb_reindex_chunks",
            "Chunks of the present pass of a reindex: total in the old index, checked so far.",
            ("state",),
            registry=registry,
        )
        self.page_works = Counter(
            "jervis_kb_pages",
            "Pages stored as images (page), documents whose pages are done (done) or cannot be made (failed).",
            ("outcome",),
            registry=registry,
        )
        self.page_waiting = Gauge(
            "jervis_kb_page_documents",
            "Documents whose pages wait (Waiting) or cannot be made (Failed), as the process knows that leads.",
            ("state",),
            registry=registry,
        )
        self.page_questions = Counter(
            "jervis_kb_page_questions",
            "Searches for pages by what found the best one: words, vectors, both, none.",
            ("way",),
            registry=registry,
        )
