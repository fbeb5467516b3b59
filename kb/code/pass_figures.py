"""What a pass over source files adds to the figures of the process."""

from __future__ import annotations

from codegraph.extract import pool
from kb import metrics


def count(read: pool.Extraction, meters: metrics.Metrics) -> None:
    """Note a pass."""
    meters.code_workers.inc(read.seconds)
    meters.code_files.labels("read").inc(len(read.files) + len(read.packed))
    for one in read.skipped:
        meters.code_files.labels(str(one.reason)).inc()
