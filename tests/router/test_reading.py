"""What the router understands of a request: the model's name, the priority, the kind of path."""

from __future__ import annotations

import pytest

from crds import gpubackend
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
        (b'{"model":"a","stream":false}', "a", False),
        (b'{"model":"a","model":"b"}', "b", None),
        (b'{"MODEL":"a","Stream":true}', "a", True),
        (b'{"prompt":"\xff\xfe","model":"a"}', "a", None),
        (b'{"prompt":"\\ud800","model":"a"}', "a", None),
        (b'\n {"model":"a"} {"model":"b"}', "a", None),
        (b'{"options":{"model":"inner"}}', "", None),
        (b'{"model":7,"stream":"yes"}', "", None),
        (b'{"model":null}', "", None),
        (b'["model"]', "", None),
        (b'{"model":"a"', "", None),
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


async def test_large_bodies_are_read_as_well() -> None:
    assert (await body.peek(b'{"images":["' + b"A" * (3 << 20) + b'"],"model":"M"}')).model == "m:latest"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/chat", Kind.INFERENCE),
        ("/v1/embeddings", Kind.INFERENCE),
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
