"""`python -m sources.providers TYPE URL` reads a source with its provider alone and prints what a poll would store.

It needs no cluster, no database and no knowledge base, and changes nothing at the source. `--secret` names a folder
with one file for each key of the Secret, as Kubernetes mounts it. Each line is JSON: an `item`, a `failure`, a `cursor`
from which `--cursor` goes on, or, with `--places`, a `place` of the list that a sweep reads. Secrets for OAuth and the
types that need clones (Git) or stored recordings (Meeting) are not for this program.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pydantic

from clients import tls_trust
from crds import connection, errors
from crds.connection import Type
from sources.core import limits, port
from sources.providers import table

TYPES = [kind.value for kind in (Type.EMAIL, *table.RULES)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 for a source that cannot be read, 2 for arguments that cannot be used."""
    asked = _parser().parse_args(arguments)
    opens = table.table(
        plain=asked.plaintext,
        tls=tls_trust.context(),
        monotonic=time.monotonic,
        wall=partial(datetime.now, UTC),
    )
    try:
        spec = _spec(asked)
        source = opens[spec.type](spec, _secret(asked.secret), limits.Bucket(asked.requests_per_minute, 10))
        asyncio.run(_places(source) if asked.places else _read(source, json.loads(asked.cursor), asked.batches))
    except (pydantic.ValidationError, OSError, UnicodeError, json.JSONDecodeError) as error:
        print(f"sources.providers: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except errors.JervisError as error:
        remedy = error.remedy if isinstance(error, errors.Permanent) else ""
        print(f"sources.providers: {error.message} {remedy or ''}".rstrip(), file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    about = "Read a source with its provider alone and print what a poll would store."
    parser = argparse.ArgumentParser(prog="python -m sources.providers", description=about)
    parser.add_argument("type", choices=TYPES, metavar="TYPE", help=", ".join(TYPES))
    parser.add_argument("url", metavar="URL", help="spec.url of the Connection")
    parser.add_argument("--secret", type=Path, help="folder with a file for each key, such as token")
    parser.add_argument("--include", action="append", default=[], help="spec.filter.include, repeatable")
    parser.add_argument("--exclude", action="append", default=[], help="spec.filter.exclude, repeatable")
    parser.add_argument("--query", default="", help="spec.filter.query")
    parser.add_argument("--cursor", default="{}", help="a cursor that was printed before")
    parser.add_argument("--batches", type=int, default=1, help="how many batches are read, by default one")
    parser.add_argument("--requests-per-minute", type=int, default=60, help="spec.rateLimit")
    parser.add_argument("--plaintext", action="store_true", help="allow a server without encryption")
    parser.add_argument("--places", action="store_true", help="list what is there, as a sweep does")
    return parser


def _spec(asked: argparse.Namespace) -> connection.Spec:
    chosen = {"include": asked.include, "exclude": asked.exclude, "query": asked.query}
    return connection.Spec.model_validate(
        {"type": asked.type, "clientId": "local", "url": asked.url, "filter": chosen, "secretRef": {"name": "local"}}
    )


def _secret(folder: Path | None) -> dict[str, str]:
    """The files of a folder; those of a mounted Secret whose names begin with two dots are Kubernetes' own."""
    if folder is None:
        return {}
    return {path.name: path.read_text() for path in sorted(folder.iterdir()) if path.is_file() and path.name[:1] != "."}


async def _read(source: port.Source, cursor: port.Cursor, batches: int) -> None:
    async with aclosing(source.batches(cursor)) as found:
        async for batch in found:
            for line in _lines(batch):
                _print(line)
            batches -= 1
            if batches <= 0:
                return


async def _places(source: port.Source) -> None:
    async with aclosing(source.ids()) as pages:
        async for page in pages:
            for place in page.places:
                _print({"place": place})


def _lines(batch: port.Batch) -> Iterator[Mapping[str, Any]]:
    for item in batch.items:
        shown = {
            "id": item.source_id, "version": item.version, "type": item.type.value, "urn": item.urn,
            "title": item.title, "text": item.text, "files": [file.name for file in item.files],
        }  # fmt: skip
        yield {"item": shown}
    for failure in batch.failures:
        yield {"failure": {"id": failure.source_id, "title": failure.title, "reason": failure.reason}}
    yield {"cursor": batch.cursor}


def _print(line: Mapping[str, Any]) -> None:
    print(json.dumps(line, ensure_ascii=False), flush=True)  # noqa: T201  # its output


if __name__ == "__main__":
    sys.exit(main())
