"""What a test may break, and the script."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests import waiting
from tests.fakes.ollama import faults, process, script
from tests.simulator.conftest import Starter, client

BODY: dict[str, Any] = {"model": "small:1b", "prompt": "one two three four five six"}


async def post(http: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await http.post("/api/generate", json=BODY | fields)


async def test_a_status_on_the_nth_request(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"match": {"path": "/api/generate"}, "nth": 2, "status": {"code": 503, "retryAfter": 2}}])
    answers = [await post(http) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 503, 200]
    assert answers[1].headers["Retry-After"] == "2"
    assert answers[1].json() == {"error": "simulated fault"}
    assert [one["outcome"] for one in fake.requests(path="/api/generate")] == ["finished", "refused", "finished"]


async def test_every_and_times(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"every": 2, "times": 2, "status": {"code": 500}}])
    assert [(await post(http)).status_code for _ in range(6)] == [200, 500, 200, 500, 200, 200]


async def test_matching_by_model_tag_and_priority(http: httpx.AsyncClient, fake: process.Fake) -> None:
    match = {"model": "SMALL:1b", "tag": "kb.*", "priority": "3"}
    fake.set_faults([{"match": match, "status": {"code": 500}}])
    tagged, urgent = {"system": "[prompt:kb.hints/v2]"}, {"X-Ollama-Priority": "3"}
    assert (await http.post("/api/generate", json=BODY | tagged, headers=urgent)).status_code == 500
    assert (await http.post("/api/generate", json=BODY | tagged)).status_code == 200
    assert (await http.post("/api/generate", json=BODY, headers=urgent)).status_code == 200
    other = BODY | tagged | {"model": "other:1b"}
    assert (await http.post("/api/generate", json=other, headers=urgent)).status_code == 200


async def test_a_reset_before_any_byte(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"match": {"path": "/api/*"}, "reset": {"afterBytes": 0}}])
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await http.get("/api/tags")
    assert fake.requests(path="/api/tags")[0]["outcome"] == "broken"


async def test_a_reset_in_the_middle(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"reset": {"afterBytes": 150}}])
    got = bytearray()

    async def read() -> None:
        async with http.stream("POST", "/api/generate", json=BODY) as response:
            assert response.status_code == 200
            async for piece in response.aiter_raw():
                got.extend(piece)

    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await read()
    assert len(got) <= 150, "a reset may drop what was still on its way, it never adds"
    assert fake.requests(outcome="broken")[0]["bytes"] == 150


async def test_a_stall_until_the_gate_opens(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"times": 1, "stall": {"afterBytes": 10, "gate": "once"}}])
    answer = asyncio.create_task(post(http, stream=False))
    await waiting.eventually(lambda: fake.state()["gates"] == {"once": 1})
    assert not answer.done()
    fake.open_gate("once")
    assert (await answer).json()["done"] is True


async def test_an_error_line_after_the_first_bytes(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"error": {"afterLines": 2, "message": "model runner has unexpectedly stopped"}}])
    answer = await post(http)
    assert answer.status_code == 200
    documents = [json.loads(line) for line in answer.text.splitlines()]
    assert [set(one) & {"response", "error"} for one in documents] == [{"response"}, {"response"}, {"error"}]
    whole = await post(http, stream=False)
    assert (whole.status_code, whole.json()) == (500, {"error": "model runner has unexpectedly stopped"})


async def test_broken_json_on_the_wire_and_in_the_answer(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"malformed": "wire"}])
    with pytest.raises(json.JSONDecodeError):
        (await post(http, stream=False)).json()
    last = (await post(http)).text.splitlines()[-1]
    with pytest.raises(json.JSONDecodeError):
        json.loads(last)
    fake.set_faults([{"malformed": "answer"}])
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    answer = (await post(http, stream=False, format=schema)).json()
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer["response"])


async def test_a_script_is_used_up_in_order_and_then_fails(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fault = {"fault": {"status": {"code": 503, "retryAfter": 1}}}
    fake.set_script({"job.respond/v1": ["plain", {"answer": "as JSON"}, fault]})
    tagged = {"system": "[prompt:job.respond/v1] x", "stream": False}
    answers = [await post(http, **tagged) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 503, 500]
    assert answers[0].json()["response"] == "plain"
    assert json.loads(answers[1].json()["response"]) == {"answer": "as JSON"}
    assert answers[3].json() == {"error": "script exhausted for tag job.respond/v1"}
    assert (await post(http, stream=False)).status_code == 200, "other tags are answered by the rules"
    assert fake.state()["script"] == {"job.respond/v1": 0}


async def test_an_answer_to_every_prompt_that_contains_a_text(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_script({"kb.hints/v2": [{"when": "Title: Scan", "answer": {"a": 1}}]})
    tagged = {"system": "[prompt:kb.hints/v2] x", "stream": False}
    scanned = [(await post(http, prompt="Title: Scan 7", **tagged)).json()["response"] for _ in range(2)]
    assert scanned == ['{"a": 1}', '{"a": 1}']
    assert (await post(http, prompt="Title: Mail", **tagged)).json()["response"] != '{"a": 1}'
    fake.set_script({"kb.hints/v2": [{"when": ["Title: Scan", "page 2"], "answer": {"a": 1}}]})
    assert (await post(http, prompt="Title: Scan 7, page 2", **tagged)).json()["response"] == '{"a": 1}'
    assert (await post(http, prompt="Title: Scan 7", **tagged)).json()["response"] != '{"a": 1}'
    for wrong in ("", [], ["x", ""]):
        with pytest.raises(ValueError, match="`when` must be a text"):
            fake.set_script({"kb.hints/v2": [{"when": wrong, "answer": "x"}]})


async def test_a_wrong_plan_is_refused_and_changes_nothing(http: httpx.AsyncClient, fake: process.Fake) -> None:
    with pytest.raises(ValueError, match="exactly one of"):
        fake.set_faults([{"match": {}}])
    with pytest.raises(ValueError, match="afterByte"):
        fake.set_faults([{"reset": {"afterByte": 1}}])
    with pytest.raises(ValueError, match="must be a list"):
        fake.set_script({"job.respond/v1": "text"})
    assert (await post(http)).status_code == 200


def test_the_tag_star_catches_every_other_tag() -> None:
    left = script.parse({"*": ["a", "b"], "known/v1": []})
    assert [left.take("some/v1"), left.take(None)] == ["a", "b"]
    with pytest.raises(script.Exhausted, match="known/v1"):
        left.take("known/v1")


def test_the_first_fault_that_fires_wins_and_all_count() -> None:
    plan = faults.parse([{"nth": 2, "status": {"code": 500}}, {"every": 2, "status": {"code": 501}}])
    codes = [
        fault and fault.status and fault.status.code for fault in (plan.choose("/", None, None, None) for _ in "1234")
    ]
    assert codes == [None, 500, None, 501]


async def test_a_runner_that_dies_of_a_body_takes_its_other_requests_along(start: Starter) -> None:
    fake = start(num_parallel=2, tokens_per_second=5.0)
    fake.set_faults([{"match": {"path": "/api/*", "body": '"maxLength": 2001'}, "crash": {}}])
    killer = {"format": {"type": "object", "properties": {"text": {"type": "string", "maxLength": 2001}}}}
    async with (
        client(fake) as http,
        http.stream("POST", "/api/generate", json=BODY | {"prompt": "one two " * 100}) as companion,
    ):
        lines = companion.aiter_lines()
        assert json.loads(await anext(lines))["done"] is False
        # httpx writes JSON without blanks.
        answer = await http.post(
            "/api/generate", content=json.dumps(BODY | killer), headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()) == (500, {"error": faults.STOPPED})
        *_, last = [json.loads(line) async for line in lines]
        assert last == {"error": "an error was encountered while running the model: unexpected EOF"}
        # Ollama has not noticed it; the next request loads the model anew.
        assert [model["name"] for model in (await http.get("/api/ps")).json()["models"]] == ["small:1b"]
        fake.set_pace(tokens_per_second=0)
        assert (await post(http)).status_code == 200
        counted = fake.state()["runner"]
        assert (counted["crashed"], counted["unloaded"], counted["loaded"]) == (2, 1, 2)


async def test_a_runner_that_ends_in_the_middle_of_an_answer(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"times": 3, "crash": {"afterLines": 2}}])
    *pieces, last = [json.loads(line) for line in (await post(http)).text.splitlines()]
    assert ([set(piece) >= {"response"} for piece in pieces], last) == ([True] * 2, {"error": faults.BROKEN})
    whole = await post(http, stream=False)
    assert (whole.status_code, whole.json()) == (500, {"error": faults.BROKEN})
    events = await http.post("/v1/completions", json=BODY | {"stream": True})
    *_, last = [json.loads(line.removeprefix("data: ")) for line in events.text.splitlines() if line]
    assert (last["model"], last["choices"][0]["finish_reason"]) == ("", None)
    assert (await post(http)).status_code == 200


async def test_a_runner_that_ends_while_it_loads(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"nth": 1, "crash": {"loading": True}}])
    fake.set_pace(load_seconds_per_gib=1e6)
    first = asyncio.create_task(post(http))
    await waiting.eventually(lambda: len(fake.state()["loaded"]) == 1)
    second = asyncio.create_task(post(http))
    await waiting.eventually(lambda: [runner["waiting"] for runner in fake.state()["loaded"]] == [2])
    fake.set_pace(load_seconds_per_gib=0)
    fake.finish_loads()
    assert ((await first).status_code, (await first).json()) == (500, {"error": faults.KILLED})
    assert (await second).status_code == 200, "it loads the model again"


async def test_a_runner_that_a_test_ends(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"times": 1, "stall": {"afterBytes": 10, "gate": "held"}}])
    begun = asyncio.create_task(post(http))
    await waiting.eventually(lambda: fake.state()["gates"] == {"held": 1})
    waits = asyncio.create_task(post(http))
    await waiting.eventually(lambda: [runner["waiting"] for runner in fake.state()["loaded"]] == [1])
    fake.end_runner("small:1b")
    assert (await waits).json() == {"error": "llama runner process no longer running: -1 "}
    fake.open_gate("held")
    assert json.loads((await begun).text.splitlines()[-1]) == {"error": faults.BROKEN}


async def test_a_model_that_is_deleted_stays_in_memory(start: Starter) -> None:
    fake = start()
    async with client(fake) as http:
        assert (await post(http)).status_code == 200
        deleted = await http.request("DELETE", "/api/delete", json={"model": "small:1b"})
        assert (deleted.status_code, deleted.content) == (200, b"")
        assert [model["name"] for model in (await http.get("/api/ps")).json()["models"]] == ["small:1b"]
        assert (await post(http)).json() == {"error": "model 'small:1b' not found"}
        assert (await http.request("DELETE", "/api/delete", json={"model": "small:1b"})).status_code == 404
