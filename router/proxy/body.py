"""The one look into a request's body: which model it names and whether its answer streams.

Go's decoder, which Ollama uses, takes the last of several equal keys, compares keys without case, reads only the first
JSON value and replaces broken UTF-8. A reader that were stricter could be led past the per-model limits by a body that
Ollama still accepts, so this one falls back to a lenient reading.

A small body is decoded. A large one is scanned (`scan`) in one thread of its own: that needs no memory to speak of, and
the streams go on meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar, TypeVarTuple, Unpack
from weakref import WeakKeyDictionary

import orjson

from router import affinity, models
from router.proxy import rewrite, scan
from router.proxy.refusal import Cause, Refusal
from router.proxy.scan import Body, Scanner, Span

SMALL = 1 << 16
"""Decoded on the event loop: at most a millisecond and 24 times its size."""
LONGEST_NAME = 1024
"""Characters of a model's name. Ollama's own limit is below 600 (`types/model/name.go`)."""

_WANTED = (
    frozenset({"model", "name", "stream", "images", "messages", "tools", "prompt", "prompt_cache_key"}) | rewrite.KEYS
)
_OPENING = ("messages", "prompt", "prompt_cache_key")
_FORMS = {"s": "sS\u017f"}
"""How a letter may be written where that is not only its two cases (Unicode's simple case folding)."""
_ODD = frozenset(
    spelling
    for key in ("model", "stream", "images", "messages", "name", "tools")
    for spelling in map("".join, itertools.product(*(_FORMS.get(letter, letter + letter.upper()) for letter in key)))
    if spelling != key
)
"""Every other spelling of a key of `decoded` that is the same one without case: a document that has none of them, as
nearly all have, is read by its keys."""
_GRAMMARS = frozenset({"json_schema", "grammar", "structured_outputs"}) | frozenset(
    {"guided_json", "guided_regex", "guided_grammar", "guided_choice"}
)
"""Members of llama.cpp's and vLLM's API that say what form an answer must have; a string does so as well."""
_FORM = frozenset({"format", "response_format", "text", "tools"}) | _GRAMMARS
"""And of Ollama's API, of OpenAI's chats and responses."""
_MESSAGE = frozenset({"images", "content"})
_NOTHING = (b"null", b"false", b"0", b'""', b"[]", b"{}")
_LONGEST_ESCAPE = 12  # two of six characters make one
_LONGEST_VALUE = 6 * LONGEST_NAME + 2  # every character written as an escape

# Several large bodies at once would take the processor from the event loop as many times.
_THREAD = ThreadPoolExecutor(1, "body")
_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class Peek(NamedTuple):
    """`asked` is the model as the client spells it, `model` its normalised name; both are empty when the body names
    none. `stream` is None when the body does not say. `images`: there are pictures in it. `name` is what older clients
    call the model in questions about one. `tools`: it may call some. `outline` is there for a large body. `opening` is
    what the turns of a conversation share (`affinity.opening`), where that was asked for. `folded`: the field `model`
    is spelled in other letters."""

    asked: str = ""
    model: str = ""
    stream: bool | None = None
    images: bool = False
    name: str = ""
    tools: bool = False
    outline: rewrite.Outline | None = None
    opening: int = 0
    folded: bool = False


NOTHING = Peek()


async def peek(data: Body, *, opening: bool = False) -> Peek:
    """Look at a body. Raises Refusal: 400 when it names a model in two spellings of the key, or one with a name that is
    too long; 413 when it was made to be expensive."""
    if len(data) > SMALL:
        return await in_thread(partial(look, opening=opening), data)
    return look(data, opening=opening)


async def in_thread(work: Callable[[Unpack[_Arguments]], _Result], *arguments: *_Arguments) -> _Result:
    """Work on a large body, one at a time."""
    loop = asyncio.get_running_loop()
    # The queue is here and not in the thread's: a client that hangs up takes its body out of it.
    async with _TURNS.setdefault(loop, asyncio.Lock()):
        return await loop.run_in_executor(_THREAD, work, *arguments)


async def complaint(data: Body) -> str:
    """Why no model was found in the body of a request that runs one."""
    missing = 'model is required: send a JSON object with "model"'
    try:
        await in_thread(orjson.loads, data) if len(data) > SMALL else orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return f"the body is no JSON: {error}; {missing}" if data else missing
    return missing


def look(data: Body, *, opening: bool = False) -> Peek:
    """See `peek`; pure."""
    if not data:
        return NOTHING
    return decoded(data, opening) if len(data) <= SMALL else _scanned(data, opening)


def decoded(data: Body, opening: bool) -> Peek:
    """See `peek`; for a body of at most SMALL bytes."""
    document = _read(data)
    if not isinstance(document, dict):
        return NOTHING
    shared = affinity.opening(*map(document.get, _OPENING)) if opening else 0
    if not _ODD.isdisjoint(document):
        return _folded(document, shared)
    value = document.get
    model, stream, messages, name = value("model"), value("stream"), value("messages"), value("name")
    if not isinstance(model, str) or len(model) > LONGEST_NAME or not model.isascii():
        model = _spelled(model)
    return Peek(
        model,
        models.normalise(model),
        stream if isinstance(stream, bool) else None,
        bool(value("images")) or (messages is not None and _shown(messages)),
        _spelled(name) if name else "",
        bool(value("tools")),
        None,
        shared,
    )


def _folded(document: dict[str, Any], shared: int) -> Peek:
    """As above, of a document with keys that are spelled in other letters."""
    model = stream = name = None
    images = tools = False
    for key, value in document.items():
        match key.casefold() if key in _ODD else key:
            case "model":
                model = _once(model, value, "model")
            case "stream":
                stream = _once(stream, value, "stream")
            case "images":
                images = images or bool(value)
            case "messages":
                images = images or _shown(value)
            case "name":
                name = _once(name, value, "name")
            case "tools":
                tools = tools or bool(value)
    seen = _peek(model, name, stream, images=images, tools=tools, opening=shared)
    return seen if model is None or "model" in document else seen._replace(folded=True)


def _peek(
    model: Any,
    name: Any,
    stream: Any,
    *,
    images: bool,
    tools: bool,
    outline: rewrite.Outline | None = None,
    opening: int = 0,
) -> Peek:
    asked, stream = _spelled(model), stream if isinstance(stream, bool) else None
    earlier = _spelled(name) if name else ""
    return Peek(asked, models.normalise(asked), stream, images, earlier, tools, outline, opening)


def _spelled(name: Any) -> str:
    """A name that can be written again: a lone surrogate becomes U+FFFD, as in Go."""
    if not isinstance(name, str):
        return ""
    if len(name) > LONGEST_NAME:
        raise Refusal(400, f"the model's name is longer than {LONGEST_NAME} characters")
    if name.isascii():
        return name
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _shown(messages: Any) -> bool:
    """Are there pictures in a chat? Ollama has them in `images`, OpenAI as parts of `content`."""
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        if message.get("images") or (
            isinstance(content, list) and any(isinstance(part, dict) and _picture(part.get("type")) for part in content)
        ):
            return True
    return False


def _picture(kind: Any) -> bool:
    return str(kind).endswith(("image_url", "image"))


def _once(before: Any, value: Any, key: str) -> Any:
    """The order of different spellings is lost (equal ones are one), so a second one is refused."""
    if before is not None:
        raise Refusal(400, f'the body names "{key}" in several spellings; send it once, in lower case')
    return value


def _read(data: Body) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _lenient(data)


def _lenient(data: Body) -> Any:
    try:
        return json.JSONDecoder().raw_decode(data.decode("utf-8", "replace").lstrip(" \t\r\n"))[0]
    except (ValueError, RecursionError):
        return None  # not JSON: `paths.INFERENCE` are refused, elsewhere the backend says so in its own words


def form(data: Body) -> bytes:
    """The schemas and tools that an answer is to keep to, however they are spaced; empty for none. Pure."""
    members = _asked(data) if len(data) <= SMALL else _asked_at_length(data)
    # The order of spellings that differ is lost, as that of members is.
    return b"".join(sorted(b"%s:%s," % (key.casefold().encode(), said) for key, said in members if _shapes(key, said)))


def _shapes(key: str, said: bytes) -> bool:
    return said not in _NOTHING and (said[0] in b"{[" or (said[0] == 0x22 and key.casefold() in _GRAMMARS))


def _asked(data: Body) -> list[tuple[str, bytes]]:
    document = _read(data)
    members = document.items() if isinstance(document, dict) else ()
    return [(key, _written(value)) for key, value in members if key.casefold() in _FORM]


def _asked_at_length(data: Body) -> list[tuple[str, bytes]]:
    """The same of a large body; a value that is large itself stays as it is written there."""
    scanner, found = Scanner(data), list[tuple[str, Span]]()
    try:
        scanner.members(scanner.skip(0), _FORM, found)
    except (scan.Malformed, scan.TooComplex):
        return []
    values = ((key, bytes(data[slice(*span)])) for key, span in dict(found).items())
    return [(key, raw if len(raw) > SMALL else _written(_read(raw))) for key, raw in values]


def _written(value: Any) -> bytes:
    with suppress(TypeError):  # more than 254 levels, a lone surrogate or a number of 65 bits
        return orjson.dumps(value)
    with suppress(RecursionError):
        return json.dumps(value, separators=(",", ":")).encode()
    return b"null"


# Large bodies.


def _scanned(data: Body, opening: bool) -> Peek:
    scanner, found = Scanner(data), list[tuple[str, Span]]()
    try:
        end, empty = scanner.members(scanner.skip(0), _WANTED, found)
        values = dict(found)  # the last of equal keys counts
        shown = any(_shows(scanner, data, key.casefold(), span) for key, span in values.items())
        tools = any(key.casefold() == "tools" and _something(data, span) for key, span in values.items())
        where = rewrite.outline(scanner, data, found, end, empty=empty)
        shared = affinity.opening(*(_beginning(scanner, data, values.get(key)) for key in _OPENING)) if opening else 0
    except scan.Malformed:
        return NOTHING
    except scan.TooComplex as error:
        raise Refusal(
            413,
            f"the body has more than {scan.MOST_STEPS} members or more than {scan.MOST_DEPTH} levels; send less",
            reason=Cause.TOO_LARGE,
        ) from error
    given: dict[str, Any] = {}
    for key, span in values.items():
        if (low := key.casefold()) in ("model", "name", "stream"):
            value = _value(data, span)
            given[low] = value if low not in given or given[low] is None else _once(given[low], value, low)
    seen = _peek(
        given.get("model"),
        given.get("name"),
        given.get("stream"),
        images=shown,
        tools=tools,
        outline=where,
        opening=shared,
    )
    return seen if "model" in values or "model" not in given else seen._replace(folded=True)


def _value(data: Body, span: Span) -> Any:
    """A name or a truth value; anything else is None."""
    if data[span[0]] in b"{[":
        return None
    if span[1] - span[0] > _LONGEST_VALUE:
        return "x" * (LONGEST_NAME + 1)  # refused for its length
    try:
        return json.loads(data[slice(*span)].decode("utf-8", "replace"), strict=False)
    except ValueError:
        return None


def _beginning(scanner: Scanner, data: Body, span: Span | None) -> Any:
    """As much of a value as `affinity.opening` looks at: a text, or the first messages unless one of them is large."""
    if span is None or data[span[0]] == 0x7B:
        return None
    if data[span[0]] == 0x22:
        return _start(data, span)
    if data[span[0]] != 0x5B:
        return None
    begun = list[Any]()
    for element in itertools.islice(scanner.elements(span[0]), affinity.MOST_MESSAGES):
        begun.append(_loaded(data, element))
        if not isinstance(begun[-1], dict) or begun[-1].get("role") == "user":
            break
    return begun


def _start(data: Body, span: Span) -> str:
    """The beginning of a text; an escape or a character that was cut through is left out."""
    raw = bytes(data[span[0] + 1 : min(span[1] - 1, span[0] + 8 * affinity.PROMPT)])
    for end in range(len(raw), max(0, len(raw) - _LONGEST_ESCAPE), -1):
        try:
            return str(orjson.loads(b'"%s"' % raw[:end]))
        except orjson.JSONDecodeError:
            continue
    return ""


def _loaded(data: Body, span: Span) -> Any:
    if span[1] - span[0] > SMALL:
        return None
    try:
        return orjson.loads(data[slice(*span)])
    except orjson.JSONDecodeError:
        return None


def _shows(scanner: Scanner, data: Body, key: str, span: Span) -> bool:
    """As `decoded` sees it."""
    if key == "images":
        return _something(data, span)
    if key != "messages" or data[span[0]] != 0x5B:
        return False
    for start, _ in scanner.elements(span[0]):
        if data[start] != 0x7B:
            continue
        found: list[tuple[str, Span]] = []
        scanner.members(start, _MESSAGE, found)
        for name, value in found:
            if name == "images" and _something(data, value):
                return True
            if name == "content" and data[value[0]] == 0x5B and _parts(scanner, data, value[0]):
                return True
    return False


def _parts(scanner: Scanner, data: Body, at: int) -> bool:
    for start, _ in scanner.elements(at):
        if data[start] == 0x7B:
            found: list[tuple[str, Span]] = []
            scanner.members(start, ("type",), found)
            if any(name == "type" and _picture(_value(data, span)) for name, span in found):
                return True
    return False


def _something(data: Body, span: Span) -> bool:
    """Not what Python takes for false."""
    return span[1] - span[0] > 16 or b"".join(bytes(data[slice(*span)]).split()) not in _NOTHING
