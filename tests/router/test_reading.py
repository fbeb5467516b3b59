"""What the router understands of a request: the model's name, the priority, the kind of path."""

from __future__ import annotations

import itertools
import json
import tracemalloc

import pytest

from crds import gpubackend, modelnames
from router import models, priority
from router.priority import Level
from router.proxy import body, paths, refusal
from router.proxy.paths import Kind


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("qwen3", "qwen3:latest"),
        ("Qwen3:LATEST", "qwen3:latest"),
        ("library/qwen3", "qwen3:latest"),
        ("registry.ollama.ai/library/qwen3:8b", "qwen3:8b"),
        ("https://Registry.Ollama.ai/library/qwen3", "qwen3:latest"),
        ("hf.co/Org/Model-GGUF:Q4_K_M", "hf.co/org/model-gguf:q4_k_m"),
        ("localhost:5000/me/model", "localhost:5000/me/model:latest"),
        (" m ", "m:latest"),
        ("", ""),
    ],
)
def test_normalise(name: str, normal: str) -> None:
    assert models.normalise(name) == normal


def _table(*specs: gpubackend.ModelSpec) -> models.Table:
    return models.Table(specs)


def test_the_longest_match_in_the_table_wins() -> None:
    table = _table(
        gpubackend.ModelSpec(name="qwen2.5", priority=3, cpu_allowed=True),
        gpubackend.ModelSpec(name="qwen2.5:72b", priority=1),
        gpubackend.ModelSpec(name="coder:30b", priority=0),
    )
    assert [priority.level(None, m, table) for m in ("qwen2.5:7b", "qwen2.5:72b", "coder:30b", "coder:7b")] == [
        Level.P3,
        Level.P1,
        Level.P0,
        Level.AUTO,
    ]
    assert [table.cpu_allowed(m) for m in ("qwen2.5:7b", "qwen2.5:72b", "unknown:latest")] == [True, False, False]


def test_backends_that_disagree() -> None:
    table = _table(
        gpubackend.ModelSpec(name="m", priority=3),
        gpubackend.ModelSpec(name="m:latest", priority=1, cpu_allowed=True),
    )
    assert priority.level(None, "m:latest", table) is Level.P1
    assert table.cpu_allowed("m:latest")


@pytest.mark.parametrize(
    ("header", "level", "understood"),
    [
        ("0", Level.P0, True),
        (" p2 ", Level.P2, True),
        ("CRITICAL", Level.P0, True),
        ("100", Level.P0, True),
        ("50", Level.P3, True),
        ("4", Level.P3, True),
        ("auto", Level.P1, True),
        (None, Level.P1, True),
        ("urgent!!", Level.P1, False),
        ("-1", Level.P1, False),
    ],
)
def test_the_header_goes_before_the_table(header: str | None, level: Level, understood: bool) -> None:
    table = _table(gpubackend.ModelSpec(name="m", priority=1))
    assert priority.level(header, "m:latest", table) is level
    assert priority.understood(header) is understood


@pytest.mark.parametrize(
    ("data", "asked", "stream"),
    [
        (b'\n {"model":"a"} {"model":"b"}', "a", None),
        (b'{"model":null}', "", None),
        (b"[" * 100_000, "", None),
        (b"--boundary\r\n", "", None),
        (b"", "", None),
    ],
)
async def test_peek(data: bytes, asked: str, stream: bool | None) -> None:
    seen = await body.peek(data)
    assert (seen.asked, seen.stream) == (asked, stream)


async def test_peek_refuses_two_spellings_because_the_backend_would_choose() -> None:
    with pytest.raises(refusal.Refusal) as caught:
        await body.peek(b'{"Model":"free","model":"precious"}')
    assert (caught.value.status, '"model"' in caught.value.message) == (400, True)


_LARGE = b" " * body.SMALL


@pytest.mark.parametrize(
    ("data", "asked", "stream", "images"),
    [
        (b'{"model":"a","stream":false}', "a", False, False),
        (b'{"model":"a","model":"b"}', "b", None, False),
        (b'{"MODEL":"a","Stream":true}', "a", True, False),
        (b'{"mod\\u0065l":"\\u0061"}', "a", None, False),
        (b'{"prompt":"\xff\xfe","model":"a"}', "a", None, False),
        (b'{"prompt":"\\ud800","model":"a"}', "a", None, False),
        (b'{"prompt":"\\\\","model":"a"} {"model":"b"}', "a", None, False),
        (b'{"options":{"model":"inner"}}', "", None, False),
        (b'{"model":7,"stream":"yes"}', "", None, False),
        (b'{"model":null,"Model":"a"}', "a", None, False),
        (b'["model"]', "", None, False),
        (b'{"model":"a"', "", None, False),
        (b'{"model":"a","images":[]}', "a", None, False),
        (b'{"model":"a","images":["AAAA"]}', "a", None, True),
        (b'{"model":"a","messages":[{"role":"user","images":["A"]}]}', "a", None, True),
        (b'{"model":"a","messages":[{"images":null},{"content":[{"type":"image_url"}]}]}', "a", None, True),
        (b'{"model":"a","messages":[{"content":"\\"images\\":[1]"},{"content":[{"type":"text"}]}]}', "a", None, False),
    ],
)
async def test_a_large_body_is_read_as_a_small_one(data: bytes, asked: str, stream: bool | None, images: bool) -> None:
    for text in (data, _LARGE + data):
        seen = await body.peek(text)
        assert (seen.asked, seen.stream, seen.images) == (asked, stream, images), text[-len(data) :]


@pytest.mark.parametrize("padding", [b"", _LARGE])
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b'{"Model":"free","model":"precious"}', 400),
        (b'{"model":"%s"}' % (b"m" * 1025), 400),
        (b'{"model":"%s"}' % (b"\\u006d" * 2_000), 400),
    ],
)
async def test_a_name_is_refused_for_its_spelling_or_length(padding: bytes, data: bytes, status: int) -> None:
    with pytest.raises(refusal.Refusal) as caught:
        await body.peek(padding + data)
    assert caught.value.status == status


_EXPENSIVE = [
    b'{"model":"m","a":[' + b"{}," * 600_000 + b"{}]}",
    b'{"model":"m","a":' + b"[" * 40_000 + b"]" * 40_000 + b"}",
    b'{"model":"m"' + b',"options":{}' * 10_000 + b"}",
]


async def memory(data: bytes, status: int | None) -> int:
    """Bytes that the look at it takes at most; it is refused with that status, or read."""
    tracemalloc.start()
    try:
        if status is None:
            assert (await body.peek(data)).model == "m:latest"
        else:
            with pytest.raises(refusal.Refusal) as caught:
                await body.peek(data)
            assert caught.value.status == status
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", _EXPENSIVE)
async def test_a_body_made_to_be_expensive_is_refused_and_takes_no_memory(data: bytes) -> None:
    assert await memory(data, 413) < 1 << 20


async def test_too_many_members_are_refused_and_none_takes_memory() -> None:
    with pytest.raises(refusal.Refusal) as caught:
        await body.peek(b'{"model":"m",' + b'"a":1,' * 600_000 + b'"a":1}')
    assert caught.value.status == 413
    # A sixth of them, and of the memory: what is allocated for each is watched, which takes eight times as long.
    assert await memory(b'{"model":"m",' + b'"a":1,' * 100_000 + b'"a":1}', None) < (1 << 20) // 6


async def test_a_lone_surrogate_in_a_name_is_replaced_as_go_does() -> None:
    assert (await body.peek(b'{"model":"\\ud800"}')).asked == "\ufffd"


def test_names_of_any_length_leave_nothing_behind() -> None:
    before = modelnames._normalised.cache_info().currsize
    assert models.normalise("m" * 5_000_000).endswith(":latest")
    assert modelnames._normalised.cache_info().currsize == before


async def test_large_bodies_are_read_as_well() -> None:
    assert (await body.peek(b'{"images":["' + b"A" * (3 << 20) + b'"],"model":"M"}')).model == "m:latest"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/chat", Kind.INFERENCE),
        ("/v1/embeddings", Kind.INFERENCE),
        ("/v1/rerank", Kind.INFERENCE),
        ("/api/show", Kind.ABOUT_MODEL),
        ("/v1/models/qwen3:8b", Kind.ABOUT_MODEL),
        ("/api/pull", Kind.ADMIN),
        ("/api/blobs/sha256:00", Kind.ADMIN),
        ("/api/something-new", Kind.OTHER),
        ("/metrics/x", Kind.FOREIGN),
    ],
)
def test_kinds_of_paths(path: str, kind: Kind) -> None:
    assert paths.kind(path) is kind


@pytest.mark.parametrize(
    ("path", "asked", "streams"),
    [
        ("/api/chat", None, True),
        ("/api/chat", False, False),
        ("/api/embed", None, False),
        ("/v1/chat/completions", None, False),
        ("/v1/chat/completions", True, True),
    ],
)
def test_which_answers_stream(path: str, asked: bool | None, streams: bool) -> None:
    assert paths.streams(path, asked) is streams


def test_every_spelling_of_a_key_is_known() -> None:
    """Go's JSON compares keys by Unicode's simple folding; a letter that were missing here would hide a model."""
    keys = ("model", "stream", "images", "messages", "name", "tools")
    letters: dict[str, set[str]] = {letter: {letter} for letter in "".join(keys)}
    for character in map(chr, range(0x110000)):
        if (low := character.casefold()) in letters:
            letters[low].add(character)
    odd = {"".join(one) for key in keys for one in itertools.product(*(letters[letter] for letter in key))} - {*keys}
    assert odd == body._ODD
    for spelling in sorted(odd):
        if spelling.casefold() == "model":
            seen = body.look(json.dumps({spelling: "Qwen3", "stream": False}).encode())
            assert (seen.model, seen.stream, seen.folded) == ("qwen3:latest", False, True)
