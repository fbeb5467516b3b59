"""Bearer tokens for backends behind authentication (`spec.secretRef`), kept fresh.

They come from Secrets of the router's namespace or, without Kubernetes, from files `DIRECTORY/SECRET/KEY` (the layout
of mounted Secrets); KEY is `token` where `secretRef.key` names none. A token that cannot be read is asked for again;
until then the last one stays.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from crds import errors
from router.backends import book

if TYPE_CHECKING:
    import kube

_log = structlog.get_logger("router.secrets")

USUAL_KEY = "token"
Read = Callable[[str, str], Awaitable[str]]
"""The token in the Secret of that name, under that key. Raises errors.JervisError."""


class Unreadable(errors.Operational):
    """There is no such token now."""


def files(directory: str | None) -> Read:
    """Read tokens from mounted Secrets."""

    async def read(name: str, key: str) -> str:
        if directory is None:
            raise Unreadable("set JERVIS_ROUTER_SECRETS_DIR to the directory with the Secrets")
        path = Path(directory) / name / key
        try:
            return (await asyncio.to_thread(path.read_text, "ascii")).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unreadable(f"{path}: {error}") from error

    return read


def objects(fetch: Callable[[str], Awaitable[kube.Object]]) -> Read:
    """Read tokens from Secrets of the apiserver; `fetch` brings one by its name."""

    async def read(name: str, key: str) -> str:
        try:
            return base64.b64decode((await fetch(name))["data"][key], validate=True).decode("ascii").strip()
        except (KeyError, TypeError, binascii.Error, UnicodeDecodeError) as error:
            raise Unreadable(f"Secret {name!r} has no ASCII text under key {key!r}") from error

    return read


class Secrets:
    """Tells `use` the tokens by backend whenever they change. `notice` is the book's listener."""

    def __init__(
        self,
        backends: book.Book,
        read: Read,
        use: Callable[[Mapping[str, str]], None],
        *,
        every: float = 60.0,
        again: float = 2.0,
    ) -> None:
        self._book = backends
        self._read = read
        self._use = use
        self._every = every
        self._again = again
        self._changed = asyncio.Event()
        self._tokens: dict[str, str] = {}
        self._named: dict[str, tuple[str, str]] = {}

    def notice(self) -> None:
        """The book changed."""
        if self._wanted() != self._named:
            self._changed.set()

    async def run(self) -> None:
        """Follow the book, for ever; look at all Secrets every `every` seconds, at unreadable ones every `again`."""
        while True:
            self._changed.clear()
            pause = self._every if await self._refresh() else self._again
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _refresh(self) -> bool:
        """True when all tokens could be read."""
        wanted, tokens, complete = self._wanted(), {}, True
        for backend, reference in wanted.items():
            try:
                tokens[backend] = await self._read(*reference)
            except errors.JervisError as error:
                complete = False
                _log.error(
                    "token of a backend cannot be read", backend=backend, secret=reference[0], error=error.message
                )
                if backend in self._tokens and self._named.get(backend) == reference:
                    tokens[backend] = self._tokens[backend]
        self._named = wanted
        if tokens != self._tokens:
            self._tokens = tokens
            self._use(tokens)
        return complete

    def _wanted(self) -> dict[str, tuple[str, str]]:
        named = ((e.name, e.spec.secret_ref) for e in self._book.entries())
        return {backend: (ref.name, ref.key or USUAL_KEY) for backend, ref in named if ref is not None}
