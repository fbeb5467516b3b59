"""What people say, and what gives access, stands in no log, however much is logged and whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crds.priority import Priority
from kb import api
from tests import needs, ports
from tests.fakes.ollama import process
from tests.kb import calls, scopes, world
from tests.kb.files import making
from tests.kb.rules import test_enforce
from tests.kb.service import callers, program
from tests.router import process as router_process

pytestmark = pytest.mark.services

KB_TOKEN, ROUTER_TOKEN, WRONG_TOKEN = "canary-kb-token", "canary-router-token", "canary-wrong-token"
PASSWORD = "canary-password"
SECRETS = (KB_TOKEN, ROUTER_TOKEN, WRONG_TOKEN, PASSWORD)
WORDS = iter([f"quetzal{number}" for number in range(100)])
# Routes that take words in the query, and in which parameters.
QUERIES = [
    ("graph/nodes", ("q", "key", "type")),
    ("graph/relationship", ("source", "target", "type")),
    ("aliases", ("key",)),
    ("aliases/candidates", ("key",)),
    ("rules/history", ("ruleKey",)),
    ("memory/procedural", ("trigger",)),
]
JSON = {"Content-Type": "application/json"}
DEBUG = {"JERVIS_KB_LOG_LEVEL": "debug"}


def word(kept: set[str]) -> str:
    """A word that no log has by chance."""
    kept.add(said := next(WORDS))
    return said


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    """Settings of a service that wants tokens and has one for the router."""
    grant = {"name": "all", "sha256": callers.digest(KB_TOKEN), "write": True, "erase": True}
    book = tmp_path / "kb-tokens.yaml"
    book.write_text(json.dumps({"tokens": [{**grant, "scopes": [{"clientId": "*"}]}]}))
    own = tmp_path / "router-token"
    own.write_text(ROUTER_TOKEN)
    return {"JERVIS_KB_TOKENS_FILE": str(book), "JERVIS_KB_ROUTER_TOKEN_FILE": str(own)}


async def surface(kb: program.Program, w: Callable[[], str]) -> None:
    """Everything that takes words, each with words of its own; what is wrong too."""
    kb_client, http = kb.client, kb.http
    needs.ocr()
    text = f"user:{w()}|OWNS|file:{w()}.py\n\nPetr {w()} wrote {w()}."
    await kb_client.ingest(world.request(text, title=w(), metadata={"author": w()}))
    await kb_client.learning.index(world.request(f"Later {w()}.", urn="u:2", title=w()))
    await kb_client.learning.store(api.Knowledge(scope=scopes.SHOP, subject=w(), content=w()), urgency=Priority.P1)
    await kb_client.learning.file(scopes.SHOP, making.docx(f"A file of {w()}."), filename=f"{w()}.docx")
    await kb_client.learning.file(scopes.SHOP, making.docx(f"Another of {w()}."), source_urn=f"file:{w()}")
    await kb_client.learning.image(scopes.SHOP, making.png(4, 4), filename=f"{w()}.png")
    kept = await kb_client.store(scopes.SHOP, f"Stored {w()}.".encode())
    attached: dict[str, Any] = {"attached_to": f"mail:{w()}", "name": f"{w()}.txt", "content_ref": kept, "title": w()}
    await kb_client.learning.attachment(api.AttachmentDraft(scope=scopes.SHOP, **attached))
    task: dict[str, Any] = {"task_id": "t1", "task_category": api.TaskCategory.EPIC, "task_action": "code"}
    await kb_client.learning.outcome(api.Outcome(scope=scopes.SHOP, **task, question=w(), final_result=w()))
    await kb_client.rules.put(test_enforce.draft(w(), rule_type=api.RuleType.CUSTOM))
    await calls.remember(kb_client, api.SessionDraft(scope=scopes.SHOP, source="chat", summary=w()))
    step = api.Step(agent="a", action=w())
    way = api.ProcedureDraft(client_id="acme", trigger_pattern=w(), procedure_steps=[step])
    await kb_client.memory.save_procedure(way)
    name = w()
    await kb_client.aliases.merge(api.Merge(scope=scopes.SHOP, alias=f"user:{name}", canonical=f"user:{w()}"))
    await kb_client.retrieve(api.RetrieveRequest(scope=scopes.SHOP, query=f"Who is {w()}?", explain=True))
    await kb_client.memory.user(scopes.SHOP)
    for path, names in QUERIES:
        query = {"clientId": "acme", "projectId": "shop"} | {name: f"user:{w()}" for name in names}
        answer = await http.get(f"/api/v1/{path}", params=query)
        assert answer.status_code == 200, f"{path} reads {names}: {answer.text}"
    for path in (f"memory/task/{w()}", f"content/{w()}", f"chunks/{w()}", f"{w()}"):
        assert (await http.get(f"/api/v1/{path}", params={"clientId": "acme"})).status_code == 404
    await http.get("/api/v1/graph/nodes", params={"clientId": "acme", w(): w()})
    for urn in ("u:2", f"mail:{w()}"):
        await http.delete("/api/v1/documents", params={"clientId": "acme", "projectId": "shop", "sourceUrn": urn})
    for path in ("ingest/full", "ingest", "retrieve", "store", "rules", "outcomes", "graph/traverse", "crawl"):
        for body in (f'{{"{w()}": "{w()}"}}', f"no JSON {w()}", f'{{"scope": {{"clientId": "a b {w()}"}}}}'):
            await http.post(f"/api/v1/{path}", content=body, headers=JSON)
    for raw in (making.zip_bomb(300), f"%PDF-1.7 {w()}".encode(), b"\x00" + w().encode()):
        await http.post("/api/v1/ingest/file", params={"clientId": "acme"}, content=raw)
    crawl = {"scope": {"clientId": "acme"}, "url": f"http://user:{PASSWORD}@169.254.169.254/{w()}"}
    await http.post("/api/v1/crawl", json=crawl)
    await http.get("/api/v1/queue", params={"clientId": "acme"}, headers=callers.bearer(WRONG_TOKEN))


async def test_nothing_that_was_said_is_in_any_log(
    run: program.Running, fake: process.Fake, tokens: dict[str, str], tmp_path: Path
) -> None:
    said: set[str] = set()
    tokens_of_router = tmp_path / "router-tokens.json"
    tokens_of_router.write_text(json.dumps([{"name": "kb", "token": ROUTER_TOKEN}]))
    logs = tmp_path / "router"
    logs.mkdir()
    backend = [router_process.spec("one", fake.url)]
    async with router_process.running(
        logs, backend, tokens_file=str(tokens_of_router), log_level="debug", token_required="true"
    ) as router:
        settings = DEBUG | tokens | {"JERVIS_KB_ROUTER_URL": router.url}
        async with run(**settings) as kb:
            kb.http.headers.update(callers.bearer(KB_TOKEN))
            await surface(kb, lambda: word(said))
            await kb.until_empty()
            # A model that answers with what it was told instead of with JSON, three times.
            fake.set_script({"kb.extract/v1": [f"no {word(said)}"] * 3})
            await kb.client.learning.index(world.request(f"Unusable {word(said)}.", urn="u:9"))
            await kb.until_empty()
            fake.set_script({})
            await kb.client.erasing.ask(scopes.SHOP, "jana")
        heard = {"kb": kb.log.read_text(), "router": router.text()}
    assert fake.count(path="/api/chat") > 5
    look(heard, said)
    assert '"event": "ingested"' in heard["kb"]
    assert '"level": "debug"' in heard["router"] or '"event"' in heard["router"]


async def test_nor_when_everything_else_is_away(run: program.Running, tokens: dict[str, str], tmp_path: Path) -> None:
    said: set[str] = set()
    port = ports.free()
    away = {
        "JERVIS_KB_MONGODB_URI": f"mongodb://jervis:{PASSWORD}@127.0.0.1:{port}/?serverSelectionTimeoutMS=200",
        "JERVIS_KB_ROUTER_URL": f"http://jervis:{PASSWORD}@127.0.0.1:{port}",
        "JERVIS_KB_WEAVIATE_URL": f"http://127.0.0.1:{port}",
        "JERVIS_KB_ARANGO_URL": f"http://127.0.0.1:{port}",
        "JERVIS_KB_ARANGO_PASSWORD": PASSWORD,
    }
    async with run(**(DEBUG | tokens | away)) as kb:
        kb.http.headers.update(callers.bearer(KB_TOKEN) | JSON)
        asked = [
            ("ingest", world.request(f"Away {word(said)}.")),
            ("ingest/full", world.request(word(said))),
            ("retrieve", api.RetrieveRequest(scope=scopes.SHOP, query=word(said))),
        ]
        for path, document in asked:
            answer = await kb.http.post(f"/api/v1/{path}", content=document.model_dump_json(by_alias=True))
            assert answer.status_code == 503, answer.text
            assert PASSWORD not in answer.text
        ready = await kb.http.get("/readyz")
        assert PASSWORD not in ready.text
    look({"kb": kb.log.read_text()}, said)


async def test_nor_when_the_file_of_tokens_is_wrong(
    run: program.Running, tmp_path: Path, tokens: dict[str, str]
) -> None:
    book = Path(tokens["JERVIS_KB_TOKENS_FILE"])
    async with run(**(DEBUG | tokens)) as kb:
        for wrong in (f"tokens: [{KB_TOKEN}", f"tokens: [{{token: {KB_TOKEN}}}]", f"{KB_TOKEN}: {{"):
            await asyncio.to_thread(replace, book, wrong)
            answer = await kb.http.get("/api/v1/queue?clientId=acme", headers=callers.bearer(KB_TOKEN))
            assert answer.status_code == 200, "the former ones hold"
    log = kb.log.read_text()
    assert log.count("the file of tokens is not taken") == 3
    look({"kb": log}, set())


def replace(book: Path, text: str) -> None:
    """As a mounted Secret changes: by another file. One that is written again at once may look like the same."""
    new = book.with_suffix(".new")
    new.write_text(text)
    new.replace(book)


def look(heard: dict[str, str], said: set[str]) -> None:
    found = [(name, text) for name, log in heard.items() for text in (*said, *SECRETS) if text in log]
    lines = [line for name, text in found for line in heard[name].splitlines() if text in line]
    assert found == [], "\n".join(lines[:10])
