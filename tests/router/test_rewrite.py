"""Setting keep_alive and num_ctx keeps every other byte, whatever the body looks like."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.proxy import body as bodies
from router.proxy import rewrite as rewriting
from router.proxy import scan


def rewrite(body: bytes, keep_alive: str | int | None, num_ctx: int | None) -> bytes:
    return b"".join(rewriting.rewrite(body, keep_alive, num_ctx).pieces)


@pytest.mark.parametrize(
    ("body", "keep_alive", "num_ctx", "result"),
    [
        (b"{}", "30m", None, b'{"keep_alive":"30m"}'),
        (b"{ }", 5, 4096, b'{ "keep_alive":5,"options":{"num_ctx":4096}}'),
        (b'{"model":"m"}', "30m", 8192, b'{"model":"m","keep_alive":"30m","options":{"num_ctx":8192}}'),
        (b'{"keep_alive" : 0 , "model":"m"}', "30m", None, b'{"keep_alive" : "30m" , "model":"m"}'),
        (b'{"keep_alive":0,"keep_alive":-1}', 60, None, b'{"keep_alive":60,"keep_alive":60}'),
        (b'{"Keep_Alive":0}', 60, None, b'{"Keep_Alive":60}'),
        ('{"\u212aeep_alive":0}'.encode(), 60, None, '{"\u212aeep_alive":60}'.encode()),
        (b'{"keep\\u005falive":0}', 60, None, b'{"keep\\u005falive":60}'),
        (b'{"options":{"num_ctx":2048,"seed":1}}', None, 512, b'{"options":{"num_ctx":512,"seed":1}}'),
        (b'{"options":{"seed":1} }', None, 512, b'{"options":{"seed":1,"num_ctx":512} }'),
        (b'{"options":{ }}', None, 512, b'{"options":{ "num_ctx":512}}'),
        (b'{"options":null}', None, 512, b'{"options":{"num_ctx":512}}'),
        (b'{"options":7}', None, 512, b'{"options":7}'),
        (b'{"options":{"NUM_CTX":1}}', None, 512, b'{"options":{"NUM_CTX":1,"num_ctx":512}}'),
        (
            b'{"messages":[{"options":{"num_ctx":1}}]}',
            None,
            2,
            b'{"messages":[{"options":{"num_ctx":1}}],"options":{"num_ctx":2}}',
        ),
        (b'{"a":"}\\"{","keep_alive":1} trailing }', 2, None, b'{"a":"}\\"{","keep_alive":2} trailing }'),
        (b'{"prompt":"\xff\xfe"}', 1, None, b'{"prompt":"\xff\xfe","keep_alive":1}'),
        (b'["keep_alive"]', 1, 1, b'["keep_alive"]'),
        (b'{"a":', 1, 1, b'{"a":'),
        (b'{"a":1,}', 1, 1, b'{"a":1,}'),
        (b'{"a" 1}', 1, 1, b'{"a" 1}'),
        (b"", 1, 1, b""),
        (b'{"a":[1,{"b":"]"}], "keep_alive":"5m"}', "1h", None, b'{"a":[1,{"b":"]"}], "keep_alive":"1h"}'),
    ],
)
def test_rewrite(body: bytes, keep_alive: str | int | None, num_ctx: int | None, result: bytes) -> None:
    assert rewrite(body, keep_alive, num_ctx) == result


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_BODIES = st.dictionaries(st.text() | st.sampled_from(["keep_alive", "model", "stream"]), _JSON, max_size=6)


@given(
    body=_BODIES,
    options=st.none() | st.dictionaries(st.text() | st.just("num_ctx"), _JSON, max_size=4),
    indent=st.none() | st.just(2),
    ascii_only=st.booleans(),
)
def test_only_the_two_values_change(
    body: dict[str, Any], options: dict[str, Any] | None, indent: int | None, ascii_only: bool
) -> None:
    body = {k: v for k, v in body.items() if k.casefold() not in ("keep_alive", "options") or k == "keep_alive"}
    if options is not None:
        body["options"] = options
    text = json.dumps(body, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    changed = json.loads(rewrite(text, "30m", 777).decode("utf-8", "surrogatepass"))
    assert changed == body | {"keep_alive": "30m", "options": (options or {}) | {"num_ctx": 777}}
    assert rewrite(text, None, None) == text


_RUNNER = {"num_gpu": 0, "num_batch": 64, "num_thread": 3, "use_mmap": False, "main_gpu": 1}


def test_options_that_would_load_the_model_anew_are_dropped_and_named() -> None:
    text = json.dumps({"model": "m", "options": {**_RUNNER, "seed": 1, "num_ctx": 9}}).encode()
    done = rewriting.rewrite(text, None, 4096)
    changed = json.loads(b"".join(done.pieces))
    assert changed == {"model": "m", "options": {**dict.fromkeys(_RUNNER), "seed": 1, "num_ctx": 4096}}
    assert sorted(done.dropped) == sorted(_RUNNER)
    # What is `null` already is neither changed nor counted.
    assert rewriting.rewrite(b"".join(done.pieces), None, None).dropped == ()
    assert json.loads(rewrite(text, None, None))["options"]["num_ctx"] == 9


@given(
    body=_BODIES,
    options=st.none() | st.dictionaries(st.sampled_from(["num_ctx", "num_gpu", "seed"]), st.integers(), max_size=3),
)
def test_a_large_body_is_changed_as_a_small_one(body: dict[str, Any], options: dict[str, Any] | None) -> None:
    whole = body | {"options": options, "model": "m", "prompt": "x" * bodies.SMALL}
    text = json.dumps(whole).encode()
    where = bodies.look(text).outline
    assert where is not None
    pieces = rewriting.pieces(text, where, "30m", 777).pieces
    assert b"".join(pieces) == rewrite(text, "30m", 777)
    # Nothing of it is copied but what the router says.
    assert sum(len(piece) for piece in pieces if not isinstance(piece, memoryview)) < 200


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' + b"[" * 2_000, b'{"a":[' + b"{}," * 600_000 + b"{}]}"])
def test_a_text_made_to_be_expensive_is_given_up(body: bytes) -> None:
    scanner = scan.Scanner(body)
    with pytest.raises((scan.TooComplex, scan.Malformed)):
        scanner.members(0, (), [])


def test_an_image_of_megabytes_is_one_token() -> None:
    body = b'{"images":["' + b"A" * (8 << 20) + b'"],"keep_alive":0}'
    assert rewrite(body, -1, None) == body[:-2] + b"-1}"
