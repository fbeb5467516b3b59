"""Backends from the setting `GPU_BACKENDS`: a JSON list of GpuBackend specs, each with a `name`.

Source: seed 000 "Multi-GPU Support". With it the router runs without Kubernetes, and so it is checked here as the
apiserver checks an object: the same names, fields and rules (`crds.backendrules`).
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import orjson
import pydantic

from crds import backendrules, errors, gpubackend, values

_SETTING = "GPU_BACKENDS"
_EXAMPLE = '[{"name":"gpu-0","kind":"GPU","url":"http://127.0.0.1:11434"}]'
_NAME: pydantic.TypeAdapter[str] = pydantic.TypeAdapter(values.ObjectName)


class Invalid(errors.Permanent):
    """A specification that cannot be used; `field` is its path."""


def read(text: str) -> dict[str, gpubackend.Spec]:
    """Specs by name, in the order given. Raises Invalid with the path of the offending field."""
    try:
        items = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid(
            f"{_SETTING} is not JSON: {error}.", field=_SETTING, remedy=f"Give a list such as {_EXAMPLE}."
        ) from error
    if not isinstance(items, list):
        raise Invalid(f"{_SETTING} is not a list.", field=_SETTING, remedy=f"Give a list such as {_EXAMPLE}.")
    specs: dict[str, gpubackend.Spec] = {}
    for index, item in enumerate(items):
        path = f"{_SETTING}[{index}]"
        if not isinstance(item, dict):
            raise Invalid(f"{path} is not an object.", field=path, remedy=f"Give a list such as {_EXAMPLE}.")
        name = _name(item.pop("name", None), f"{path}.name")
        if name in specs:
            raise Invalid(f"{path}.name {name!r} is taken.", field=f"{path}.name", remedy="Names must differ.")
        specs[name] = _checked(item, path)
    return specs


def _name(given: Any, field: str) -> str:
    try:
        return _NAME.validate_python(given, strict=True)
    except pydantic.ValidationError as error:
        wrong = "is missing" if given is None else f"{str(given)[:80]!r} is not the name of a backend"
        raise Invalid(
            f"{field} {wrong}.",
            field=field,
            remedy="Give every backend a name as Kubernetes takes it: lower-case letters, digits, '-' and '.', a letter"
            " or digit first and last, at most 253 characters.",
        ) from error


def _checked(item: dict[str, Any], path: str) -> gpubackend.Spec:
    """A spec that the apiserver would take as well: no unknown field, no text for a number, no rule broken."""
    try:
        gpubackend.Spec.model_validate_json(orjson.dumps(item), strict=True, extra="forbid", by_name=False)
    except pydantic.ValidationError as error:
        raise _refused(error, path) from error
    spec = parse(item, path)
    for fault in backendrules.faults(spec):
        what, _, remedy = fault.message.partition("; ")
        raise Invalid(f"{path}.{fault.field}: {what}.", field=f"{path}.{fault.field}", remedy=_sentence(remedy or what))
    return spec


def _refused(error: pydantic.ValidationError, path: str) -> Invalid:
    first = error.errors(include_url=False, include_context=False)[0]
    field = path + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return Invalid(
            f"{field} is not a field of a GpuBackend's spec.",
            field=field,
            remedy="Correct its spelling or leave it out.",
        )
    return Invalid(f"{field}: {first['msg']}.", field=field, remedy="See the GpuBackend reference.")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def parse(item: Any, path: str) -> gpubackend.Spec:
    """One spec, checked as far as the router depends on it. `path` begins the field's path in an error."""
    try:
        spec = gpubackend.Spec.model_validate(item)
    except pydantic.ValidationError as error:
        raise _refused(error, path) from error
    try:
        parts = urlsplit(spec.url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        usable = usable and not ("@" in parts.netloc or parts.query or parts.fragment)
        # urlsplit leaves them out silently.
        usable = usable and spec.url.isprintable() and " " not in spec.url
    except (
        ValueError
    ):  # for brackets without an IPv6 address, for characters that change a host, for a port out of range
        usable = False
    if usable and spec.engine is gpubackend.Engine.OPENAI and re.search(backendrules.ENDS_WITH_V1, spec.url):
        raise Invalid(
            f"{path}.url {spec.url!r} ends with /v1.",
            field=f"{path}.url",
            remedy="Give it without /v1: the router adds the path of each request.",
        )
    if not usable:
        raise Invalid(
            f"{path}.url {spec.url!r} is not the address of a server.",
            field=f"{path}.url",
            remedy="Give an http(s) URL without credentials, query and fragment, such as http://gpu-0:11434.",
        )
    return spec
