"""Backends from the setting `GPU_BACKENDS`: a JSON list of GpuBackend specs, each with a `name`.

Source: seed 000 "Multi-GPU Support". With it the router runs without Kubernetes.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import orjson
import pydantic

from crds import errors, gpubackend

_SETTING = "GPU_BACKENDS"
_EXAMPLE = '[{"name":"gpu-0","kind":"GPU","url":"http://127.0.0.1:11434"}]'


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
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not name:
            raise Invalid(f"{path}.name is missing.", field=f"{path}.name", remedy="Give every backend a name.")
        if name in specs:
            raise Invalid(f"{path}.name {name!r} is taken.", field=f"{path}.name", remedy="Names must differ.")
        specs[name] = parse(item, path)
    return specs


def parse(item: Any, path: str) -> gpubackend.Spec:
    """One spec, checked as far as the router depends on it. `path` begins the field's path in an error."""
    try:
        spec = gpubackend.Spec.model_validate(item)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join([path, *(str(part) for part in first["loc"])])
        raise Invalid(f"{field}: {first['msg']}.", field=field, remedy="See the GpuBackend reference.") from error
    try:
        parts = urlsplit(spec.url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        usable = usable and not ("@" in parts.netloc or parts.query or parts.fragment)
    except (
        ValueError
    ):  # for brackets without an IPv6 address, for characters that change a host, for a port out of range
        usable = False
    if usable and spec.engine is gpubackend.Engine.OPENAI and parts.path.rstrip("/").endswith("/v1"):
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
