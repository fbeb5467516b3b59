"""Which model a request names, and the request with another name in its place."""

from __future__ import annotations

from urllib.parse import quote

from router import models
from router.aliases import Aliases
from router.proxy import body, paths, rewrite, scan
from router.proxy.message import Request
from router.proxy.paths import Kind
from router.proxy.refusal import Refusal


def about(path: str, seen: body.Peek) -> body.Peek:
    """Of a question about a model: the path says which, or `model`, or `name`, which is what older clients send
    (`cmp.Or(req.Model, req.Name)` in Ollama's routes.go)."""
    if path.startswith(paths.MODEL_PREFIX):
        asked = path.removeprefix(paths.MODEL_PREFIX)
    elif seen.model:
        return seen
    else:
        asked = seen.name
    return seen._replace(asked=asked, model=models.normalise(asked))


async def renamed(request: Request, kind: Kind, seen: body.Peek, aliases: Aliases) -> tuple[body.Peek, bytes]:
    """(what the request says now, its new body) for one that names an alias; where the name is in its path, that is
    changed in place. Raises Refusal(400) for a body in which it cannot be replaced."""
    model = aliases.target(seen.model)
    if request.path.startswith(paths.MODEL_PREFIX):
        request.path = paths.MODEL_PREFIX + model
        _, mark, query = request.target.partition(b"?")
        request.target = quote(request.path).encode() + mark + query
        return seen._replace(asked=model, model=models.normalise(model)), bytes(request.body)
    keys = ("model", "name") if kind is Kind.ABOUT_MODEL else ("model",)
    try:
        if len(request.body) > body.SMALL:
            changed = await body.in_thread(rewrite.renamed, request.body, keys, model)
            return (await body.peek(changed))._replace(opening=seen.opening), changed
        changed = rewrite.renamed(request.body, keys, model)
    except (scan.Malformed, scan.TooComplex) as error:
        raise Refusal(
            400, f"{seen.asked!r} is an alias, which needs a body of plain JSON; ask for {model!r} instead"
        ) from error
    return seen._replace(asked=model, model=models.normalise(model)), changed
