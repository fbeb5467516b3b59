"""Models of pages: one that is served, by the documented wire format, and one that runs in the process."""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from clients import http as outward
from kb import errors
from kb.files import image, pages
from kb.visual import embedder, local, served
from tests import ports
from tests.clients import servers
from tests.fakes import pooling
from tests.kb.files import making as files
from tests.kb.visual import place as places

PAGE = files.pages(places.lines("The pressure valve opens at nine bar"))


@pytest.fixture
async def fake() -> AsyncIterator[pooling.Fake]:
    async with pooling.serving() as made:
        yield made


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with outward.client(tls=servers.TLS) as made:
        yield made


async def picture() -> bytes:
    [page] = (await pages.Renderer(pages.Limits()).lay(PAGE, 1, 1)).pages
    return page.image


async def test_images_and_questions_go_as_the_pooling_api_wants_them(
    fake: pooling.Fake, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    asked = served.Served(f"{fake.url}/", "colqwen", http, token_file=str(token), before="Query: ")
    image = await picture()
    one, other = await asked.embed_pages([image, image])
    np.testing.assert_array_equal(one.vectors, other.vectors)
    np.testing.assert_allclose(np.linalg.norm(one.vectors, axis=1), 1, atol=1e-5)
    assert one.grid is None
    [message] = fake.asked[0]["messages"]
    assert [part["type"] for part in message["content"]] == ["image_url", "text"]
    assert message["content"][0]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert message["content"][1]["text"] == "Describe the image."
    question = await asked.embed_query("pressure valve")
    assert fake.asked[-1] == {"model": "colqwen", "encoding_format": "float", "input": ["Query: pressure valve"]}
    assert question.vectors.shape == (3, 128)
    assert set(fake.tokens) == {"Bearer secret"}


async def test_a_model_with_one_vector_for_a_page_gives_one_row(fake: pooling.Fake, http: httpx.AsyncClient) -> None:
    fake.single = True
    asked = served.Served(fake.url, "bi", http, patches=embedder.Patches(28))
    [page] = await asked.embed_pages([await picture()])
    assert (page.vectors.shape, page.grid) == ((1, 128), None)
    assert (await asked.embed_query("valve")).vectors.shape == (1, 128)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, "{}", errors.Away),
        (429, "{}", errors.Away),
        (404, "no model", errors.Unconfigured),
        (401, "no", errors.Unconfigured),
        (400, "too long", errors.Invalid),
        (200, "<html>", errors.Unconfigured),
        (200, "{}", errors.Unconfigured),
        (200, '{"data": []}', errors.Unconfigured),
        (200, '{"data": [{"data": [[1.0], [1.0, 2.0]]}]}', errors.Unconfigured),
        (200, '{"data": [{"data": []}]}', errors.Unconfigured),
        (200, '{"data": [{"data": "AAAA"}]}', errors.Unconfigured),
        (200, '{"data": [{"data": [[1e400]]}]}', errors.Unconfigured),
    ],
)
async def test_what_is_no_answer_says_what_to_do(
    fake: pooling.Fake, http: httpx.AsyncClient, status: int, body: str, kind: type[Exception]
) -> None:
    fake.fault = (status, body)
    with pytest.raises(kind):
        await served.Served(fake.url, "colqwen", http).embed_query("valve")


async def test_an_answer_without_an_end_is_not_read_to_it(fake: pooling.Fake, http: httpx.AsyncClient) -> None:
    fake.fault = (200, '{"data": [' + " " * 100_000)
    with pytest.raises(errors.Invalid, match="more than 65536 bytes"):
        await served.Served(fake.url, "colqwen", http, most_bytes=65_536).embed_query("valve")
    many = ",".join(["[1.0]"] * 4097)
    fake.fault = (200, '{"data": [{"data": [' + many + "]}]}")
    with pytest.raises(errors.Invalid, match="4097 vectors"):
        await served.Served(fake.url, "colqwen", http).embed_pages([await picture()])


async def test_an_answer_that_trickles_is_away_in_time(fake: pooling.Fake, http: httpx.AsyncClient) -> None:
    fake.trickles = True
    with pytest.raises(errors.Away, match=r"no answer within 0\.3 seconds"):
        await served.Served(fake.url, "colqwen", http, query_seconds=0.3).embed_query("valve")


async def test_a_drawn_page_is_sent_smaller_and_an_upload_as_it_is(fake: pooling.Fake, http: httpx.AsyncClient) -> None:
    patches = embedder.Patches(28, most=4, first=0)
    asked = served.Served(fake.url, "colqwen", http, pixels=500_000, patches=patches)
    upload = files.png(900, 900)
    fake.fault = (200, '{"data": [{"data": [[1.0], [1.0], [1.0], [1.0]]}]}')
    for body in (await picture(), upload):
        await asked.embed_pages([body])
    urls = [one["messages"][0]["content"][0]["image_url"]["url"] for one in fake.asked]
    drawn, sent = (base64.b64decode(url.partition(";base64,")[2]) for url in urls)
    assert image.measured(drawn) == ("image/png", 621, 804)
    assert sent == upload


async def test_a_server_that_is_not_there_is_away(http: httpx.AsyncClient) -> None:
    with pytest.raises(errors.Away, match="visual is away"):
        await served.Served(f"http://127.0.0.1:{ports.free()}", "colqwen", http).embed_query("valve")
    with pytest.raises(errors.Unconfigured, match="token"):
        await served.Served("http://127.0.0.1:1", "colqwen", http, token_file="/not/there").embed_query("valve")


@pytest.mark.parametrize(
    ("width", "height", "rows", "columns"),
    [
        # What transformers' smart_resize gives for 28 pixels and 768 patches, and for images that are too small.
        (1275, 1650, 31, 24),
        (560, 280, 10, 20),
        (28, 28, 2, 2),
        (2800, 28, 1, 100),
    ],
)
def test_the_grid_follows_from_the_size_of_the_image(width: int, height: int, rows: int, columns: int) -> None:
    patches = embedder.Patches(28)
    grid = patches.grid(files.png(width, height), 4 + rows * columns)
    assert grid is not None
    assert (grid.rows, grid.columns, grid.first) == (rows, columns, 4)
    assert patches.grid(files.png(width, height), 3 + rows * columns) is None
    assert embedder.Patches().grid(files.png(width, height), 10_000) is None


_EXTRA = [name for name in ("torch", "colpali_engine") if importlib.util.find_spec(name) is None]


@pytest.mark.skipif(not _EXTRA, reason="the extra `visual` is installed")
async def test_without_the_extra_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(errors.Unconfigured, match=r"needs the extra `visual`") as refused:
        await local.Local("colqwen", tmp_path, "colqwen2.5").embed_query("valve")
    assert refused.value.field == "visualWeights"


@pytest.mark.skipif(bool(_EXTRA), reason=f"the extra `visual` is not installed: {', '.join(_EXTRA)} missing")
async def test_a_folder_without_weights_says_so(tmp_path: Path) -> None:
    with pytest.raises(errors.Unconfigured, match="cannot be loaded"):
        await local.Local("colqwen", tmp_path, "colqwen2.5").embed_query("valve")
