"""`python -m orchestrator_job.analyze clone|report`: the first and the last step of the analysis of a repository.

Exit status of clone: 0 the branch is below the work volume, 1 it is not (the termination message says why). Of report:
0 what was found, or why not, is in the termination message. 2 of both: the settings cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Annotated

import httpx
import pydantic
import structlog
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from clients import tls_trust
from crds import scope
from kb import client as kb_client
from orchestrator_job import termination
from orchestrator_job.analyze import clone, layout, report

log = structlog.get_logger("analyze")
_PREFIX = "JERVIS_ANALYZE_"
_Url = Annotated[str, Field(pattern=r"^https?://[^/\s]+")]


class Settings(BaseSettings):
    """`JERVIS_ANALYZE_<FIELD>` of both; durations are in seconds."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="ignore", frozen=True)

    token_file: str
    seconds: Annotated[float, Field(gt=0)] = 1800
    """Of the Job: how long a service that is away is asked again."""
    work: Path = Path("/workspace")
    termination_log: Path = Path("/dev/termination-log")


class Cloning(Settings):
    """Of `clone`."""

    sources_url: _Url
    connection: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=253)]
    ref: Annotated[str, Field(max_length=255)] = ""
    """Name of a branch; "" is the default one."""


class Reporting(Settings):
    """Of `report`."""

    kb_url: _Url
    client: Annotated[str, Field(min_length=1)]
    project: str = ""
    group: str = ""
    steps: str = ""
    """Of Overview, Structure, Cpg, separated by commas."""
    query_id: str = ""
    """Hand over the answer of this query instead."""

    @property
    def asked(self) -> list[str]:
        """The steps in the order in which they are done."""
        named = {one.strip() for one in self.steps.split(",")}
        return [one for one in (report.OVERVIEW, report.STRUCTURE, report.CPG) if one in named]


def main(arguments: list[str]) -> int:
    """Run to the end and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m orchestrator_job.analyze", description=__doc__)
    parser.add_argument("step", choices=("clone", "report"))
    step = parser.parse_args(arguments).step
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        return _clone(Cloning()) if step == "clone" else asyncio.run(_report(Reporting()))
    except pydantic.ValidationError as error:
        for one in error.errors(include_url=False, include_input=False, include_context=False):
            name = "_".join(str(part) for part in one["loc"]).upper()
            print(f"analyze: setting {_PREFIX}{name}: {one['msg']}", file=sys.stderr)  # noqa: T201
        return 2


def _clone(config: Cloning) -> int:
    making = clone.Clone(config.sources_url, config.connection, Path(config.token_file), config.seconds)
    try:
        source = making.make(config.ref, layout.Work(config.work))
    except layout.Failure as error:
        log.error("not cloned", reason=error.message)
        termination.write(config.termination_log, layout.message({}, error))
        return 1
    log.info("cloned", repository=source.repository, branch=source.branch, commit=source.commit)
    return 0


async def _report(config: Reporting) -> int:
    owner = scope.Scope(client_id=config.client, project_id=config.project, group_id=config.group)
    timeout = httpx.Timeout(600.0, connect=5.0)
    async with httpx.AsyncClient(verify=tls_trust.context(), timeout=timeout, trust_env=False) as http:
        kb = kb_client.Client(config.kb_url, http, kb_client.token_file(config.token_file), attempts=1)
        made = report.Report(kb, layout.Work(config.work), owner, config.seconds)
        if config.query_id:
            found, failure = await made.answered(config.query_id)
        else:
            found, failure = await made.steps(config.asked)
    if failure is not None:
        log.error("incomplete", reason=failure.reason, problem=failure.message)
    termination.write(config.termination_log, layout.message(found, failure))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
