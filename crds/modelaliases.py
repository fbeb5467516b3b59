"""Other names for models. Pure.

What a client asks for by an alias is asked of the backends by the name that it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crds import modelnames

_LONGEST = 600


class Aliases:
    """`given` are names of models by alias, both as their author spells them; an alias may stand for another one.
    Raises ValueError, which names the alias, for a circle, for patterns and for two spellings of one alias."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._next: dict[str, str] = {}
        self._spelled: dict[str, str] = {}
        for alias, target in (given or {}).items():
            for name in (alias, target):
                if not name.strip() or len(name) > _LONGEST or modelnames.is_pattern(name):
                    raise ValueError(f"{alias!r}: {name!r} is no name of a model; give one name, without *")
            key = modelnames.normalise(alias)
            if key in self._next:
                raise ValueError(f"{alias!r} and {self._spelled[key]!r} are one name; leave one of them out")
            self._next[key] = target
            self._spelled[key] = alias
        self._targets = {key: self._end(key) for key in self._next}

    def __bool__(self) -> bool:
        """There are some."""
        return bool(self._targets)

    def __contains__(self, model: str) -> bool:
        """Is the normalised name an alias?"""
        return model in self._targets

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        """(normalised alias, alias as it was given, normalised name of the model)."""
        for key, target in self._targets.items():
            yield key, self._spelled[key], modelnames.normalise(target)

    def target(self, model: str) -> str:
        """The name of the model as the alias' author spells it; a name that is no alias stays as it is."""
        return self._targets.get(model, model)

    def resolve(self, name: str) -> str:
        """The normalised name of the model that a client means by `name`."""
        return modelnames.normalise(self.target(modelnames.normalise(name)))

    def _end(self, key: str) -> str:
        path = [key]
        while (following := modelnames.normalise(self._next[path[-1]])) in self._next:
            if following in path:
                circle = " -> ".join(self._spelled[name] for name in [*path[path.index(following) :], following])
                raise ValueError(f"{circle} is a circle; let one of them name a model")
            path.append(following)
        return self._next[path[-1]]


NONE = Aliases()
