"""Servers that repeat what they were sent: no credential is in logs, MongoDB, status, metrics or answers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from clients import mongo
from contracts.tokens import keyring
from controllers.connection import decide
from controllers.connection.credentials import Finding
from crds import connection
from sources import client
from sources.core import assignments, redact
from tests import httpserver, ports, waiting
from tests.sources import process
from tests.sources.api import serving
from tests.sources.effects.world import NAMESPACE, World

pytestmark = pytest.mark.services
MAIL: dict[str, Any] = {"to": ["a@example.com"], "subject": "S", "text": "T"}


class Cluster(World):
    """Without tasks."""

    def _read(self, path: str, query: Any) -> Any:
        if path.endswith("/pendingtasks"):
            return {"kind": "PendingTaskList", "metadata": {"resourceVersion": "1"}, "items": []}
        return super()._read(path, query)


def decoded(text: str) -> str:
    """What Base64 in it says, beside it."""
    found = [text]
    for word in text.replace('"', " ").split():
        with contextlib.suppress(ValueError):
            found += [base64.b64decode(word + "=" * (-len(word) % 4), validate=True).decode()]
    return " ".join("".join(letter if letter.isprintable() else " " for letter in one) for one in found)


class Echo:
    """Over HTTP and by lines, as IMAP, POP3 and SMTP have them."""

    def __init__(self) -> None:
        self.http, self.imap, self.pop3, self.smtp = "", 0, 0, 0
        self.heard: list[str] = []
        self.tag = ""
        """Of the client's last AUTHENTICATE, to which its next line belongs."""

    async def answer(self, request: web.Request) -> web.Response:
        status, body = int(request.path.split("/")[1]), (await request.text())
        said = decoded(
            " ".join(request.headers.getall("Authorization", []) + request.headers.getall("PRIVATE-TOKEN", []))
        )
        said = f"{said} {body} {request.path_qs}"
        self.heard.append(said)
        if request.path.endswith("/token"):
            if "good-refresh" in body:
                return web.json_response({"access_token": "access-of-oauth-repeated", "expires_in": 3600})
            return web.json_response({"error": "invalid_grant", "error_description": said}, status=400)
        kind = "text/plain" if "git" in request.path else "application/json"
        text = said if kind == "text/plain" or status == 200 else json.dumps({"message": said})
        return web.Response(status=status, text=text, content_type=kind)

    async def lines(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kind = {self.imap: "imap", self.pop3: "pop3", self.smtp: "smtp"}[writer.get_extra_info("sockname")[1]]
        greeting = {"imap": "* OK [CAPABILITY IMAP4rev1 AUTH=XOAUTH2] hello", "pop3": "+OK hello", "smtp": "220 hello"}
        writer.write(f"{greeting[kind]}\r\n".encode())
        while line := (await reader.readline()).decode().strip():
            self.heard.append(decoded(line))
            writer.write(self.reply(kind, line).encode())
        writer.close()

    def reply(self, kind: str, line: str) -> str:
        said = decoded(line)
        if kind == "imap":
            tag, _, rest = line.partition(" ")
            if rest.startswith("CAPABILITY"):
                return f"* CAPABILITY IMAP4rev1 AUTH=XOAUTH2\r\n{tag} OK done\r\n"
            if rest.startswith("AUTHENTICATE"):
                self.tag = tag
                return "+ \r\n"
            return f"{tag if rest else self.tag} NO {said}\r\n"
        if kind == "pop3":
            return "+OK\r\n" if line.startswith("USER") else f"-ERR {said}\r\n"
        if line.upper().startswith("EHLO"):
            return "250-hello\r\n250 AUTH PLAIN XOAUTH2\r\n"
        return f"535 {said}\r\n"

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Echo]:
        async with (
            httpserver.serving(self.answer) as self.http,
            httpserver.tcp(self.lines) as self.imap,
            httpserver.tcp(self.lines) as self.pop3,
            httpserver.tcp(self.lines) as self.smtp,
        ):
            yield self


def cases(echo: Echo) -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """By name: spec and Secret. Every value that is secret has the word `repeated`."""
    login = {"username": "ada", "password": "pass word/repeated+0"}
    made: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
        "imap": ({"type": "Email", "url": f"imap://127.0.0.1:{echo.imap}"}, login),
        "pop3": ({"type": "Email", "url": f"pop3://127.0.0.1:{echo.pop3}"}, login),
        "git": ({"type": "Git", "url": f"{echo.http}/500/git/r.git"}, login),
        "git-refused": ({"type": "Git", "url": f"{echo.http}/403/git/r.git"}, {"token": "token-repeated-git"}),
    }
    for kind in ("GitLab", "Gitea"):
        for status in (200, 401, 403, 422, 500):
            url = f"{echo.http}/{status}"
            spec = {"type": kind, "url": url, "filter": {"include": ["o/r"]}}
            made[f"{kind.lower()}-{status}"] = spec, {"token": f"token-repeated-{kind}-{status}"}
    for kind in ("Jira", "Confluence"):
        for status in (200, 401, 500):
            spec = {"type": kind, "url": f"{echo.http}/{status}"}
            made[f"{kind.lower()}-{status}"] = spec, {"username": "ada", "token": f"token-repeated-{kind}-{status}"}
    oauth = {"client_id": "app", "client_secret": "client-secret-repeated", "token_url": f"{echo.http}/400/token"}
    made["oauth-refused"] = (
        {"type": "Jira", "url": f"{echo.http}/200"}, {**oauth, "refresh_token": "refresh-token-repeated/+="}
    )  # fmt: skip
    good = {**oauth, "refresh_token": "good-refresh-repeated"}
    made["oauth-jira"] = {"type": "Jira", "url": f"{echo.http}/401"}, good
    made["oauth-imap"] = {"type": "Email", "url": f"imap://127.0.0.1:{echo.imap}"}, {**good, "username": "ada"}
    made["oauth-git"] = {"type": "Git", "url": f"{echo.http}/500/git/r.git"}, good
    return made


SECRETS = (
    "pass word/repeated+0", "token-repeated-", "client-secret-repeated", "refresh-token-repeated",
    "good-refresh-repeated", "access-of-oauth-repeated", "repeated",
)  # fmt: skip


def leaks(text: str) -> list[str]:
    """Of the secrets, in any of their forms."""
    found = [one for one in SECRETS if one in text]
    for word in text.replace('"', " ").replace("'", " ").replace("\\n", " ").split():
        with contextlib.suppress(ValueError):
            inner = base64.b64decode(word + "=" * (-len(word) % 4), validate=True)
            found += [word] if b"repeated" in inner else []
    return found


async def test_what_a_server_repeats_is_shown_nowhere(tmp_path: Path) -> None:
    store = mongo.client(os.environ["JERVIS_TEST_MONGODB_URI"])
    name = f"jervis_redaction_{uuid.uuid4().hex[:8]}"
    database, assigned = store[name], assignments.Assignments(store[name])
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "signing").write_text("k" * 64)
    keys, api_port = keyring.Keyring(tmp_path / "keys", lambda: 0.0)(), ports.free()
    async with Echo().serving() as echo, Cluster().serving() as world:
        made = cases(echo)
        for each, (spec, secret) in made.items():
            world.secrets[each] = secret
            world.connect(each, **{**spec, "secretRef": {"name": each}})
        smtp = {"url": f"smtp://127.0.0.1:{echo.smtp}", "from": "team@example.com"}
        for each in ("imap", "oauth-imap"):
            world.connections[each]["spec"]["smtp"] = smtp
        started = process.Sources(
            tmp_path / "log", KUBECONFIG=world.kubeconfig(tmp_path), KB_URL=world.url, API_HOST="127.0.0.1",
            API_PORT=api_port, RUN_TOKEN_KEYS=tmp_path / "keys", MONGODB_DATABASE=name, LOG_LEVEL="debug",
            MONGODB_URI=os.environ["JERVIS_TEST_MONGODB_URI"], WORKSPACE=tmp_path / "ws", AT_ONCE=32,
        )  # fmt: skip
        try:
            await asyncio.to_thread(started.ready)
            conns = {each: connection.Connection.model_validate(raw) for each, raw in world.connections.items()}
            for one in conns.values():
                await assigned.want(one)

            async def unpolled() -> list[str]:
                states = {uid: state for uid, (_, _, state) in (await assigned.states()).items()}
                return [each for each in conns if not states[f"uid-{each}"].polled_at]

            await waiting.eventually(unpolled, "every Connection is polled", good=lambda left: not left)
            states = {uid: state for uid, (_, _, state) in (await assigned.states()).items()}
            answers = []
            token = serving.run_token(uid=uuid.uuid4().hex, now=datetime.now(UTC), keys=keys)
            async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
                asked = client.Client(f"http://127.0.0.1:{api_port}", http, lambda: token)
                for tool, each, arguments in (
                    ("sendMail", "imap", MAIL), ("sendMail", "oauth-imap", MAIL),
                    ("addComment", "gitea-401", {"issue": "1", "text": "T"}),
                    ("addComment", "oauth-jira", {"issue": "ABC-1", "text": "T"}),
                ):  # fmt: skip
                    with pytest.raises((client.Rejected, client.Unavailable)) as caught:
                        await asked.effect(tool, each, f"k-{each}", arguments)
                    answers.append(str(caught.value))
                figures = (await http.get(f"http://127.0.0.1:{started.port}/metrics")).text
        finally:
            await asyncio.to_thread(started.kill)
    rows = [row for each in await database.list_collection_names() async for row in database[each].find()]
    await store.drop_database(name)
    store.close()
    shown = {
        each: str(decide.patch(one, Finding(None, "NotTried", ""), datetime.now(UTC), state=states[f"uid-{each}"]))
        for each, one in conns.items()
    }
    heard = " ".join(echo.heard)
    assert [one for one in SECRETS if one not in heard] == [], "every one of them was sent"
    assert all(redact.HIDDEN in one for one in answers), answers
    without = {each for each, one in shown.items() if redact.HIDDEN not in one}
    assert without <= {"git-refused"}, "\n".join(states[f"uid-{each}"].message for each in without)
    for where, text in (
        ("log", (tmp_path / "log").read_text()), ("MongoDB", str(rows)), ("status", str(shown)),
        ("answers", str(answers)), ("metrics", figures),
    ):  # fmt: skip
        assert leaks(text) == [], where
    assert NAMESPACE in str(rows)
