"""What the knowledge base counts. The registry is an argument, so that each process (and test) has its own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """The meters of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter("jervis_kb_requests", "Finished HTTP requests.", ("route", "status"), registry=registry)
        self.seconds = Histogram(
            "jervis_kb_request_seconds", "Time to answer.", ("route",), buckets=_SECONDS, registry=registry
        )
        self.stages = Histogram(
            "jervis_kb_stage_seconds", "Time in a stage of ingest or retrieval.", ("stage",), buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self.ingested = Counter("jervis_kb_ingests", "Documents by outcome.", ("outcome",), registry=registry)
        self.chunks = Counter("jervis_kb_chunks", "Chunks ingested.", registry=registry)
        self.embedded = Counter("jervis_kb_embedded_texts", "Texts sent to the embedding model.", registry=registry)
        self.answers = Counter(
            "jervis_kb_model_answers",
            "Structured answers by prompt and origin (model, cache, invalid).",
            ("prompt", "origin"),
            registry=registry,
        )
        self.dropped = Counter(
            "jervis_kb_dropped_relationships", "Relationships without a verbatim sentence.", registry=registry
        )
        self.lanes = Gauge("jervis_kb_lane_writers", "Writers by lane and state.", ("lane", "state"), registry=registry)
        self.repaired = Counter(
            "jervis_kb_repairs", "Places where the stores disagreed and were made to agree.", registry=registry
        )
        self.lost = Gauge(
            "jervis_kb_lost_chunks",
            "Chunks whose text is gone, at the last comparison of the stores.",
            registry=registry,
        )
        self.unfinished = Gauge("jervis_kb_unfinished_ingests", "Documents whose ingest is open.", registry=registry)
        self.queued = Gauge(
            "jervis_kb_queued_extractions", "Documents that wait for extraction.", ("priority",), registry=registry
        )
        self.jobs = Counter("jervis_kb_queue_jobs", "Jobs of the queue by outcome.", ("outcome",), registry=registry)
        self.uploads = Counter(
            "jervis_kb_uploads", "Files and images by media type and outcome (taken, refused).", ("type", "outcome"),
            registry=registry,
        )  # fmt: skip
        self.swept = Counter("jervis_kb_swept_contents", "Stored contents deleted as unused.", registry=registry)
