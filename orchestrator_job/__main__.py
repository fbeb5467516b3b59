"""`python -m orchestrator_job`: the root of a run. Reads the settings, builds, wires, runs, reports, exits.

Exit status: 0 finished (answered, or asks the user), 42 drained (to be resumed), 1 failed. A termination message is
written in every case. The signal handlers are installed before slow imports, hence the imports inside functions.

A pod of the warm pool imports everything first and then waits for its task (`run.warm_start`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from orchestrator_job.run import drain

if TYPE_CHECKING:
    from contracts import otel_spans
    from orchestrator_job import outcome, settings
    from orchestrator_job.run import logs


def main() -> int:
    """Run to the end and return the exit status."""
    request = drain.Request()
    request.install()

    import pydantic

    from contracts import otel_spans
    from orchestrator_job import errors, outcome, settings
    from orchestrator_job.run import logs

    reporting, waiting = settings.Reporting(), settings.Handover()
    try:
        configured = _handed(waiting, request) if waiting.url else settings.Settings()
    except drain.Drained as error:
        return _report(outcome.drained(error.reason), reporting, "", 0)
    except pydantic.ValidationError as error:
        logs.configure("info")
        problems = "; ".join(
            f"JERVIS_{'_'.join(str(part) for part in each['loc']).upper()}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)
        )
        refused = errors.InvalidInput(f"The Job's settings cannot be used: {problems}.", field="env")
        return _report(outcome.of_error(refused), reporting, "", 0)
    fields = logs.configure(configured.log_level)
    fields.update(task_uid=configured.task_uid, task=configured.task_name, attempt=configured.attempt)
    if configured.traceparent:
        fields.update(trace_id=configured.traceparent.split("-")[1])
    traced = otel_spans.start(configured.traces, "jervis-orchestrator-job")
    ended = _run(configured, request, fields, traced)
    status = _report(ended, reporting, configured.task_uid, configured.attempt)
    # Last: an unavailable collector must not delay the message to the operator.
    traced.close()
    return status


def _handed(waiting: settings.Handover, request: drain.Request) -> settings.Settings:
    """The settings of a run whose task comes later, once it is there."""
    import asyncio

    import httpx
    import structlog

    from orchestrator_job import settings
    from orchestrator_job.run import logs, warm_start
    from router import client

    logs.configure("info")
    warm_start.imports()
    structlog.get_logger("orchestrator_job").info("waiting for a task")

    async def wait() -> settings.Settings:
        request.attach(asyncio.get_running_loop())
        async with httpx.AsyncClient(transport=client.few()) as http:
            given = await warm_start.task(waiting.url, client.token_file(waiting.token_file), request, http=http)
        settings.adopt(given.environment, warm_start.keep(given.token, waiting.keep))
        return settings.Settings()

    return asyncio.run(wait())


def _run(
    configured: settings.Settings, request: drain.Request, fields: logs.Fields, traced: otel_spans.Spans
) -> outcome.Outcome:
    import asyncio
    import uuid
    from datetime import UTC, datetime

    import httpx
    import structlog

    from contracts import otel_spans
    from crds import errors
    from orchestrator_job import outcome
    from orchestrator_job.run import lifecycle
    from orchestrator_job.store import mongo, retry
    from router import client

    def now() -> datetime:
        return datetime.now(UTC)

    async def whole() -> outcome.Outcome:
        request.attach(asyncio.get_running_loop())
        retries = retry.Retry(configured.unavailable_seconds)
        # No proxy: router and knowledge base are cluster services; a node's proxy must not see their traffic.
        hooks = {"request": [otel_spans.pass_on]}
        about: dict[str, otel_spans.Value] = {
            "jervis.task.uid": configured.task_uid,
            "jervis.attempt": configured.attempt,
        }
        async with httpx.AsyncClient(
            transport=client.few(), timeout=httpx.Timeout(90, connect=5), event_hooks=hooks
        ) as http:
            database = mongo.Database(mongo.connect(configured.mongodb_uri), configured.database, retries)
            try:
                holder = uuid.uuid4().hex
                job = lifecycle.Run(configured, database, http, retries, fields, holder=holder, now=now, traced=traced)
                with traced.span("run", about, parent=configured.traceparent) as tell:
                    ended = await job.to_end(request)
                    tell("jervis.exit_reason", ended.reason.value)
                    return ended
            finally:
                database.client.close()

    try:
        return asyncio.run(whole())
    except errors.JervisError as error:
        return outcome.of_error(error)
    except Exception as error:  # noqa: BLE001 - the process's edge: the operator needs a message about a bug as well
        structlog.get_logger("orchestrator_job").exception("bug")
        return outcome.of_bug(error)


def _report(result: outcome.Outcome, reporting: settings.Reporting, task_uid: str, attempt: int) -> int:
    import structlog

    from orchestrator_job import termination

    log = structlog.get_logger("orchestrator_job")
    # Without the answer: status and result hold it, with their own access rights.
    log.info("ended", exit_reason=result.reason.value, exit_code=result.exit_code, summary_chars=len(result.summary))
    try:
        termination.write(reporting.termination_log, termination.encode(result, task_uid, attempt))
    except OSError as error:
        # The operator still gets the exit status; only the message is lost.
        log.error("termination message not written", path=str(reporting.termination_log), reason=str(error))
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
