"""The metrics of meetings; labels are states and fixed words."""

from __future__ import annotations

import prometheus_client as prometheus


class Metrics:
    """On the registry of the sources process."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        self.meetings = prometheus.Counter(
            "jervis_meetings_total",
            "Meetings by the state that they came to, as this process saw it.",
            ["state"],
            registry=registry,
        )
        self.bytes = prometheus.Counter(
            "jervis_meetings_bytes_total", "Bytes of complete recordings.", registry=registry
        )
        self.full = prometheus.Counter(
            "jervis_meetings_full_total",
            "Parts of recordings that were refused because their namespace has as many bytes as it may have.",
            registry=registry,
        )
        self.corrections = prometheus.Counter(
            "jervis_meetings_corrections_total",
            "Corrections of transcripts by outcome (Done, Failed).",
            ["outcome"],
            registry=registry,
        )
        self.changes = prometheus.Counter(
            "jervis_meetings_corrected_segments_total",
            "Segments that a correction changed, by outcome (changed, refused: it changed too much).",
            ["outcome"],
            registry=registry,
        )
