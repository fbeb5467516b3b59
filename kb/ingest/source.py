"""The text of a request: given with it, or stored beforehand; checked, and its hidden parts marked (`kb.hidden`).

Images that stand in it are taken out (`kb.files.inside`).
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pydantic

from crds import scope
from kb import api, errors, hidden, identity, paging
from kb.content import store as content
from kb.files import inside

_LONG = 100_000
_MARKED = '{"marked":true,'
"""How the record of a request begins whose content this program has marked: no request of a caller has the field."""
_STARTS = '"starts":'
"""What follows where the pages of the content are known: `kb.paging.Starts` as JSON."""


async def text(request: api.IngestRequest, stored: content.Store, *, max_chars: int) -> str:
    """At least one visible character and at most `max_chars`. Raises what `read` raises."""
    return (await read(request, stored, max_chars=max_chars, limits=inside.Limits(images=0))).text


async def read(
    request: api.IngestRequest, stored: content.Store, *, max_chars: int, limits: inside.Limits
) -> inside.Taken:
    """The text, without the images in it, and those within `limits`.

    Raises `kb.errors.Invalid` or `TooLarge`, or what `stored` raises.
    """
    said, field = request.content, "content"
    if said is None and request.content_ref is not None:
        field = "contentRef"
        body = await stored.load(request.scope, request.content_ref.key)
        if identity.digest_bytes(body) != request.content_ref.sha256:
            raise errors.Invalid(
                "the stored content is not what contentRef describes",
                field="contentRef.sha256",
                remedy="Store the content again and use the contentRef of that answer.",
            )
        said = body.decode("utf-8", "replace")
    if said is None or not said.strip():
        raise errors.Invalid(
            "the document is empty", field=field, remedy="Give a content with at least one visible character."
        )
    long = len(said) >= _LONG
    found = await asyncio.to_thread(inside.take, said, limits) if long else inside.take(said, limits)
    said = found.text
    if len(said) > max_chars:
        raise errors.TooLarge(
            f"the document has {len(said)} characters, at most {max_chars} are ingested",
            field=field,
            remedy="Split the document, or raise JERVIS_KB_MAX_CHARS.",
        )
    if request.marked:
        return found
    shown = await asyncio.to_thread(hidden.marked, said) if long else hidden.marked(said)
    return replace(found, text=shown)


def unread(text: str) -> list[str]:
    """A problem for the characters that were not UTF-8; words with them are not found."""
    lost = text.count("\ufffd")
    return [f"{lost} characters are not UTF-8, and words with them are not found"] if lost else []


def record(request: api.IngestRequest) -> str:
    """A request as an intent or a job holds it: without its project's group, which the owner of the record names.

    So the texts of one request stay equal when its project moves to another group.
    """
    left_out = {"scope": {"group_id"}} if request.scope.project_id else None
    text = request.model_dump_json(by_alias=True, exclude=left_out)
    starts = f"{_STARTS}{json.dumps(request.starts, separators=(',', ':'))}," if request.starts else ""
    return _MARKED + starts + text[1:] if request.marked else text


def recorded(text: str, owner: scope.Scope) -> api.IngestRequest:
    """What was recorded so, in the scope of the record as it is now."""
    plain, starts = text, paging.Starts()
    try:
        if text.startswith(_MARKED):
            plain = text.removeprefix(_MARKED)
            if plain.startswith(_STARTS):
                pairs, end = json.JSONDecoder().raw_decode(plain, len(_STARTS))
                starts, plain = paging.of(pairs), plain[end + 1 :]
            plain = "{" + plain
        found = api.IngestRequest.model_validate_json(plain).model_copy(update={"scope": owner})
        return found if plain is text else found.as_marked(starts)
    except pydantic.ValidationError as error:
        # Written by another version of this program: only the caller can send it anew.
        raise errors.Invalid(f"the recorded request is unreadable{_where(error)}", remedy="Ingest it again.") from None


def _where(error: pydantic.ValidationError) -> str:
    # Its places and reasons; the error's own text and its chain would show the content itself.
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f" at {'.'.join(map(str, first['loc'])) or 'its beginning'}: {first['msg']}"
