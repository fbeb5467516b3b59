"""The blocks of values.schema.json that stand for settings of a process: written from its Settings class.

A class offers what it declares itself; what it inherits from its `Release` is filled by the chart's templates. Name,
description, type, bounds and default stand in the class alone; values.yaml has a default only where the chart's differs
or readers should see it. Everything else in values.schema.json is written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from controllers import settings as operator
from crds import flags, tools
from kb import settings as kb
from orchestrator_job import settings as run
from router import settings as router
from sources import settings as sources
from tests.fakes.ollama import settings as simulator

CHART = Path(__file__).resolve().parents[2] / "charts" / "jervis"
TARGET = CHART / "values.schema.json"

Json = dict[str, Any]
_ORDER = ("type", "description", "default", "enum")
"""What comes first in a setting; other keys follow as pydantic names them."""


@dataclass(frozen=True, slots=True)
class Block:
    """Where settings stand among the chart's values. `offered`: which of the class's fields; `prefix` is left out of
    their names. `whole`: all values of the block are settings; otherwise those that are none are written by hand."""

    path: str
    settings: type[BaseModel]
    offered: Callable[[str], bool]
    prefix: str = ""
    whole: bool = True

    def fields(self) -> dict[str, str]:
        """Value -> field of the class, in the order of the class."""
        names = [name for name in self.settings.model_fields if self.offered(name)]
        return {to_camel(name.removeprefix(self.prefix)): name for name in names}

    def default(self, value: str) -> Any:
        """What the process takes when the chart gives it nothing; None: nothing, or no such value."""
        field = self.fields().get(value)
        return _plain(self.settings.model_fields[field].get_default(call_default_factory=True)) if field else None


def _plain(value: Any) -> Any:
    """30 in place of 30.0: a value of the chart may be written without a point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _own(settings: type[BaseModel]) -> Callable[[str], bool]:
    return settings.__annotations__.__contains__


def _begins(prefix: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefix)


_FLAGS = {flag.variable.removeprefix("JERVIS_").lower() for flag in flags.Flag}
PROCESSES = (
    Block("operator.settings", operator.Settings, _own(operator.Settings)),
    Block("router.settings", router.Settings, _own(router.Settings)),
    Block("kb.settings", kb.Settings, _own(kb.Settings)),
    Block("sources.settings", sources.Settings, _own(sources.Settings)),
    Block("simulator.gpu.settings", simulator.Settings, _own(simulator.Settings)),
    Block("simulator.cpu.settings", simulator.Settings, _own(simulator.Settings)),
)
BLOCKS = (
    *PROCESSES,
    *(
        Block(path, operator.Settings, _begins(prefix), prefix, whole=False)
        for path, prefix in {
            "approvals": "approval_",
            "joern": "joern_",
            "sandbox": "sandbox_",
            "transcription": "transcription_",
        }.items()
    ),
    Block("job.flags", run.Settings, _FLAGS.__contains__),
    Block("job.tools", tools.Tools, _own(tools.Tools)),
)


class UndescribedError(ValueError):
    """A setting without a docstring, or without a place in the schema; the message names it."""


def rendered() -> str:
    """The whole schema with fresh blocks. Raises UndescribedError."""
    schema: Json = json.loads(TARGET.read_text(encoding="utf-8"))
    values: Json = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    for block in BLOCKS:
        node, stated = schema, values
        for name in block.path.split("."):
            node, stated = node["properties"][name], stated[name]
        fresh = dict(_properties(block, stated))
        if block.whole:
            node["properties"] = fresh
        else:
            if missing := sorted(set(fresh) - set(node["properties"])):
                raise UndescribedError(f"{block.path} has no {', '.join(missing)}: add it by hand, with any content")
            by_hand = {name for name, value in node["properties"].items() if "$ref" in value}
            node["properties"] |= {name: value for name, value in fresh.items() if name not in by_hand}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _properties(block: Block, stated: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    """The schema of each setting. A default that values.yaml states is not repeated."""
    schema = block.settings.model_json_schema()
    for value, field in block.fields().items():
        fresh = _flat(schema["properties"][field], schema.get("$defs", {}))
        if not fresh.get("description"):
            raise UndescribedError(f"{block.path}.{value}: {field} of {block.settings.__module__} has no docstring")
        if value in stated:
            fresh.pop("default", None)
        yield value, {**{key: fresh[key] for key in _ORDER if key in fresh}, **fresh}


def _flat(node: Json, definitions: Mapping[str, Json]) -> Json:
    """The same without references, titles and null, which the chart does not pass on."""
    if reference := node.get("$ref"):
        shared = definitions[reference.rpartition("/")[2]]
        node = {**shared, **{key: value for key, value in node.items() if key != "$ref"}}
    if choices := node.get("anyOf"):
        (choice,) = (one for one in choices if one.get("type") != "null")
        node = {**_flat(choice, definitions), **{key: value for key, value in node.items() if key != "anyOf"}}
    flat = {key: value for key, value in node.items() if key not in ("title", "format")}
    if "description" in flat:
        flat["description"] = " ".join(flat["description"].split())
    for key in ("properties", "patternProperties"):
        if key in flat:
            flat[key] = {name: _flat(child, definitions) for name, child in flat[key].items()}
            flat.setdefault("additionalProperties", False)
    for key in ("items", "additionalProperties"):
        if isinstance(flat.get(key), dict):
            flat[key] = _item(_flat(flat[key], definitions))
    if flat.get("additionalProperties") is True:
        del flat["additionalProperties"]
    if flat.get("default", ...) is None:
        del flat["default"]
    elif "default" in flat:
        flat["default"] = _plain(flat["default"])
    return flat


def _item(node: Json) -> Json:
    """An item has the description of its list."""
    return {key: value for key, value in node.items() if key != "description"}
