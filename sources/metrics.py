"""The metrics of the sources process; labels are bounded: types of Connections and fixed words."""

from __future__ import annotations

import prometheus_client as prometheus


class Metrics:
    """On a registry of its own."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        self.registry = registry
        self.polls = prometheus.Counter(
            "jervis_sources_polls_total",
            "Polls of Connections by type and outcome (Succeeded, or the reason of the condition).",
            ["type", "outcome"],
            registry=registry,
        )
        self.items = prometheus.Counter(
            "jervis_sources_items_total",
            "Items by type of Connection and outcome (found, partial: something of it was left out, indexed, refused,"
            " unusable: it could not be read, read_again: it could be later).",
            ["type", "outcome"],
            registry=registry,
        )
        self.commits = prometheus.Counter(
            "jervis_sources_commits_total",
            "Commits sent to the knowledge base, by its answer (Stored, Updated, Unchanged, LeftOut, Removed,"
            " Forgotten, Absent, Failed).",
            ["outcome"],
            registry=registry,
        )
        self.git_reads = prometheus.Counter(
            "jervis_sources_git_reads_total",
            "Requests of runs to read a repository, by outcome (ok, refused, away, failed).",
            ["outcome"],
            registry=registry,
        )
        self.ci_reads = prometheus.Counter(
            "jervis_sources_ci_reads_total",
            "Requests of runs for the checks of a commit, by type of Connection and outcome (ok, refused, away,"
            " failed).",
            ["type", "outcome"],
            registry=registry,
        )
        self.seconds = prometheus.Histogram(
            "jervis_sources_poll_seconds",
            "Duration of a poll.",
            ["type"],
            buckets=(0.1, 0.5, 1, 5, 15, 60, 300, 1800),
            registry=registry,
        )
        self.sweeps = prometheus.Counter(
            "jervis_sources_sweeps_total",
            "Looks for items that left their source, by type and outcome (Swept, TooManyMissing, SweepFailed).",
            ["type", "outcome"],
            registry=registry,
        )
        self.sweep_seconds = prometheus.Histogram(
            "jervis_sources_sweep_seconds",
            "Duration of such a look.",
            ["type"],
            buckets=(0.1, 0.5, 1, 5, 15, 60, 300, 1800),
            registry=registry,
        )
        self.deletions = prometheus.Counter(
            "jervis_sources_deletions_total",
            "Items that left their source, by type and outcome (missing: found by a sweep, removed: nothing is left"
            " of them, refused: their document is not deleted yet, held: kept back, in each sweep).",
            ["type", "outcome"],
            registry=registry,
        )
        self.outrun = prometheus.Counter(
            "jervis_sources_outrun_total",
            "Requests that the knowledge base refused because another process has observed the source since.",
            registry=registry,
        )
        self.left_over = prometheus.Counter(
            "jervis_sources_left_over_total",
            "What nothing referred to any more and was deleted, by kind (clones, items, versions, uploads,"
            " meetings, recordings, transcripts).",
            ["kind"],
            registry=registry,
        )
        self.effects = prometheus.Counter(
            "jervis_sources_effects_total",
            "Requests for effects by tool and outcome (Done, Unknown, Refused, Conflict, Unavailable, Failed).",
            ["tool", "outcome"],
            registry=registry,
        )
        self.active = prometheus.Gauge(
            "jervis_sources_active", "Connections that this process is working on.", registry=registry
        )
        self.watched = prometheus.Gauge(
            "jervis_sources_watched", "Mailboxes that this process waits at for news.", registry=registry
        )
        self.loop_failures = prometheus.Counter(
            "jervis_sources_loop_failures_total", "Rounds that ended with an unforeseen error.", registry=registry
        )
