"""`kubectl jervis meetings` and `meeting`, against the API: an upload goes on whatever breaks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from cli import __main__ as cli
from cli import errors, meetings
from contracts.api import meeting
from tests.sources.git.knowledge import kubeconfig
from tests.sources.meetings.test_flow import begun as attempt
from tests.sources.meetings.test_upload import Rig, make, recording

pytestmark = pytest.mark.services


class Breaking(httpx.AsyncHTTPTransport):
    """Loses every second part: on its way there, or its answer on the way back."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method != "PATCH":
            return await super().handle_async_request(request)
        self.parts += 1
        if self.parts % 4 == 1:
            raise httpx.ConnectError("lost there")
        response = await super().handle_async_request(request)
        if self.parts % 4 == 3:
            await response.aread()
            raise httpx.ReadError("lost back")
        return response


async def test_an_upload_goes_on_whatever_breaks(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "PART", 700_000)
    file, body, seen = tmp_path / "weekly.wav", recording(5_000_000), list[int]()
    await asyncio.to_thread(file.write_bytes, body)
    size, sha256 = meetings.checked(file)

    async def sleep(_: float) -> None:
        return

    draft = meeting.Draft(namespace="team", connection="meetings", title="weekly")
    lines = Breaking()
    async with rig.client() as served, httpx.AsyncClient(transport=lines, timeout=120) as http:
        api = meetings.Api(str(served.base_url), http, "acme", sleep)
        one, there = await meetings.begun(api, draft, size)
        assert not there
        done = await api.upload(one.id, file, size, sha256, seen.append)
    assert (done.state, done.bytes, done.sha256) == (meeting.State.UPLOADED, size, sha256)
    assert seen == sorted(seen)
    assert lines.parts > 8
    assert b"".join([piece async for piece in rig.audio.read(await rig.row(one.id))]) == body


async def test_a_broken_upload_is_found_again(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "MOST_MISSES", 0)
    file, body = tmp_path / "weekly.wav", recording(meetings.PART + 5000)
    await asyncio.to_thread(file.write_bytes, body)
    size, sha256 = meetings.checked(file)
    draft = meeting.Draft(namespace="team", connection="meetings", title="weekly")
    async with rig.client() as served, httpx.AsyncClient(timeout=120) as http:
        api = meetings.Api(str(served.base_url), http, "acme")
        await make(served, title="weekly")  # without a length it may be another recording
        one, _ = await meetings.begun(api, draft, size)

        def stop(offset: int) -> None:
            if offset:
                raise errors.Unusable("The person presses Ctrl-C.")

        with pytest.raises(errors.Unusable):
            await api.upload(one.id, file, size, sha256, stop)
        again, there = await meetings.begun(api, draft, size)
        assert (again.id, there, again.bytes) == (one.id, True, meetings.PART)
        assert (await api.upload(one.id, file, size, sha256, lambda _: None)).state is meeting.State.UPLOADED
        with pytest.raises(errors.NotFound):
            await api.get("f" * 32)


async def test_the_commands(rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, file = await asyncio.to_thread(kubeconfig, tmp_path), tmp_path / "weekly.wav"
    await asyncio.to_thread(file.write_bytes, recording(5000))

    async with rig.client() as served:

        async def run(*words: str, token: str = "acme", code: int = 0) -> str:
            flags = ["--kubeconfig", str(config), "-n", "team", "--sources", str(served.base_url)]
            flags += ["--token", token] if token else []
            try:
                found = await asyncio.to_thread(cli.main, [*words, *flags])
            except SystemExit as error:
                found = int(error.code or 0)
            said = capsys.readouterr()
            assert found == code, said.err
            return said.err if code else said.out

        assert await run("meetings") == "No meetings are in this namespace.\n"
        said = await run("meeting", "upload", str(file), "--connection", "meetings", "--participant", "Ada")
        one = said.split()[1]
        assert said == f"meeting {one} uploaded: UPLOADED\n"
        listed = json.loads(await run("meetings", "-o", "json"))["items"]
        assert [(each["title"], each["participants"], each["state"]) for each in listed] == [
            ("weekly", ["Ada"], "UPLOADED")
        ]
        row = await attempt(rig, one)
        await rig.meetings.missed(row, "The recording cannot be decoded.", rig.now, permanent=True)
        table = await run("meetings")
        assert table.split("\n")[0].split() == [
            "ID",
            "TITLE",
            "CONNECTION",
            "STATE",
            "AGE",
            "MIB",
            "CHANGES",
            "TASK",
            "WHY",
        ]
        assert "FAILED" in table
        assert "The recording cannot be decoded." in table
        assert await run("meeting", "retry", one) == f"meeting {one} will be transcribed again\n"
        assert "Only a FAILED one" in await run("meeting", "retry", one, code=1)
        assert await run("meeting", "delete", one) == f"meeting {one} deleted\n"
        assert "field: --token" in await run("meetings", token="", code=1)
        assert "field: --token" in await run("meetings", token="wrong", code=1)
        assert "type Meeting" in await run("meeting", "upload", str(file), "--connection", "mailbox", code=1)
        assert "FILE" in await run("meeting", "upload", str(tmp_path / "no"), "--connection", "meetings", code=1)
