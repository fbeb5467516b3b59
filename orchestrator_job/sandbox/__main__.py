"""`python -m orchestrator_job.sandbox fetch|report`: what comes before a command and what follows it.

Exit status: 0 done, 1 not (the termination message says why), 2 the settings cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import httpx
import pydantic
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from clients import tls_trust
from crds import errors, scope
from kb import client as kb_client
from orchestrator_job import termination
from orchestrator_job.sandbox import workspace
from orchestrator_job.store import retry

_PREFIX = "JERVIS_SANDBOX_"
_KILLED = 137
"""What a shell says of a program that SIGKILL ended; also where the command left nothing."""


class Settings(BaseSettings):
    """`JERVIS_SANDBOX_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="ignore", frozen=True)

    kb_url: Annotated[str, Field(pattern=r"^https?://[^/\s]+")]
    token_file: str
    client: Annotated[str, Field(min_length=1)]
    project: str = ""
    group: str = ""
    key: Annotated[str, Field(min_length=1)]
    sha256: Annotated[str, Field(pattern=r"^[a-f0-9]{64}$")]
    output_bytes: Annotated[int, Field(ge=1)] = 1 << 20
    patch_bytes: Annotated[int, Field(ge=1)] = 4 << 20
    work: Path = Path("/workspace")
    left: Path = Path("/left")
    kept: Path = Path("/kept")
    termination_log: Path = Path("/dev/termination-log")
    unavailable_seconds: Annotated[float, Field(gt=0)] = 120
    """How long a knowledge base that is away is asked again."""

    @property
    def archive(self) -> Path:
        """The original of the workspace."""
        return self.kept / "workspace.tar.gz"


def main(arguments: list[str]) -> int:
    """Run one step to its end and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m orchestrator_job.sandbox", description=__doc__)
    parser.add_argument("step", choices=("fetch", "report"))
    step = parser.parse_args(arguments).step
    try:
        config = Settings()
    except pydantic.ValidationError as error:
        for one in error.errors(include_url=False, include_input=False, include_context=False):
            name = "_".join(str(part) for part in one["loc"]).upper()
            print(f"sandbox: setting {_PREFIX}{name}: {one['msg']}", file=sys.stderr)  # noqa: T201
        return 2
    try:
        said, code = asyncio.run(_step(step, config)), 0
    except workspace.Unusable as error:
        said, code = {"failure": termination.shorten(error.message, 1000)}, 1
    except errors.JervisError as error:
        said, code = {"failure": termination.shorten(f"The knowledge base: {error.message}", 1000)}, 1
    if said:
        termination.write(config.termination_log, json.dumps(said, ensure_ascii=False).encode(errors="replace"))
    return code


async def _step(step: str, config: Settings) -> dict[str, Any]:
    where = scope.Scope(client_id=config.client, project_id=config.project, group_id=config.group)
    retries = retry.Retry(config.unavailable_seconds)
    async with httpx.AsyncClient(verify=tls_trust.context(), timeout=300, trust_env=False) as http:
        kb = kb_client.Client(config.kb_url, http, kb_client.token_file(config.token_file), attempts=1)
        if step == "fetch":
            raw = await retries.call("fetch the workspace", lambda: kb.fetch(where, config.key))
            if hashlib.sha256(raw).hexdigest() != config.sha256:
                raise workspace.Unusable("The stored workspace is damaged: its SHA-256 differs.")
            config.archive.write_bytes(raw)
            workspace.unpack(config.archive, config.work)
            return {}

        async def stored(body: bytes, media_type: str) -> Any:
            kept = await retries.call("store the result", lambda: kb.store(where, body, media_type))
            return kept.model_dump(mode="json", by_alias=True)

        code, output = left(config)
        with tempfile.TemporaryDirectory() as scratch:
            changed = workspace.patch(config.archive, config.work, Path(scratch), config.patch_bytes)
        said: dict[str, Any] = {"exitCode": code}
        if output:
            said["outputRef"] = await stored(output, "text/plain")
        if changed:
            said["patchRef"] = await stored(changed, "text/x-diff")
        return said


def left(config: Settings) -> tuple[int, bytes]:
    """Exit code and output of the command, which may have written anything in their place."""
    code = _read(config.left / "exit", 16).strip()
    number = int(code) if code.isdigit() else _KILLED
    return min(number, 255), _read(config.left / "output", config.output_bytes)


def _read(path: Path, most: int) -> bytes:
    try:
        if path.is_symlink() or not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(most)
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
