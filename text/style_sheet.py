"""What the style sheets of a page say of its elements: their `<style>` blocks, as far as hiding goes. Pure.

Selectors are tags, classes and ids, alone, together and below others (`table .note`); those with attributes, states or
neighbours are left out, and so are rules for some windows only (`@media (max-width: 600px)`), for print, and for one
program (conditional comments). The order of rules holds: importance, then ids, classes and tags, then the later one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

_MOST_CHARS, _MOST_RULES, _OF_KEY = 200_000, 2000, 500
"""Of all blocks together, of rules, and of rules for one tag, class or id; later ones are not read."""
_MOST_LOOKS = 1_000_000
"""Rules that are compared with elements, so that the time of a hostile page has an end."""
_BLOCK = re.compile(r"<!--|<style\b([^<>]*)>", re.IGNORECASE)
_CLOSED = re.compile(r"</style", re.IGNORECASE)
_BRACE = re.compile(r"[{}]")
_MEDIA = re.compile(r"\bmedia\s*=\s*[\"']?([^\"'>]*)", re.IGNORECASE)
_NOTE = re.compile(r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?|<!--|-->")
_COMPOUND = re.compile(r"(?:\*|[a-z][a-z0-9-]*)?(?:[.#][\w-]+)*")
_KEY = re.compile(r"[.#]?[a-z0-9_-][\w-]*")
_ABOUT = re.compile(
    r"^(?:display|visibility|opacity|font-size|text-indent|left|top|right|margin-left|clip|color|background"
    r"|background-color|overflow|(?:max-)?(?:height|width)|mso-hide)$"
)
_IMPORTANT = "!important"


@dataclass(frozen=True)
class _Rule:
    keys: frozenset[str]
    above: frozenset[str]
    rank: tuple[int, int, int, int]
    says: Mapping[str, str]


class Sheet:
    """The rules of the blocks in `text`; none is an empty sheet, which is false."""

    def __init__(self, text: str) -> None:
        self._rules: dict[str, list[_Rule]] = defaultdict(list)
        self._count, self._looks = 0, _MOST_LOOKS
        room = _MOST_CHARS
        for block in _blocks(text):
            self._read(_NOTE.sub(" ", block[:room]).lower())
            room -= len(block)
            if room <= 0:
                break

    def __bool__(self) -> bool:
        return bool(self._rules)

    def style(self, keys: Iterable[str], above: Counter[str], own: str) -> str:
        """The declarations that hold for an element with these `keys` below elements with those `above`, as its own
        `style` would have them; `own` is its own, without blanks and in small letters."""
        mine = frozenset((*keys, "*"))
        found: list[_Rule] = []
        for key in mine:
            rules = self._rules.get(key, ())
            self._looks -= len(rules)
            if self._looks > 0:
                found += [one for one in rules if one.keys <= mine and all(above[name] for name in one.above)]
        if not found:
            return own
        usual: dict[str, str] = {}
        urgent: dict[str, str] = {}
        for said in (*(one.says for one in sorted(found, key=lambda one: one.rank)), _declared(own)):
            for name, value in said.items():
                held = urgent if value.endswith(_IMPORTANT) else usual
                if name.startswith("background"):  # each of the two sets the other
                    held.pop("background", None)
                    held.pop("background-color", None)
                held[name] = value.removesuffix(_IMPORTANT)
        return ";".join(f"{name}:{value}" for name, value in (usual | urgent).items())

    def _read(self, css: str) -> None:
        at = 0
        while self._count < _MOST_RULES and (brace := css.find("{", at)) >= 0:
            prelude = css[at:brace].replace("}", " ").rpartition(";")[2].strip()
            if prelude.startswith("@"):
                at = brace + 1 if _holds(prelude) else _past(css, brace)
                continue
            end = css.find("}", brace)
            end = len(css) if end < 0 else end
            says = {name: value for name, value in _declared(css[brace + 1 : end]).items() if _ABOUT.match(name)}
            if says:
                for selector in prelude.split(",")[:_OF_KEY]:
                    self._add(selector.replace(">", " ").split(), says)
            at = end + 1

    def _add(self, compounds: list[str], says: Mapping[str, str]) -> None:
        if not compounds or not all(_COMPOUND.fullmatch(one) for one in compounds):
            return
        *above, own = (frozenset(_KEY.findall(one)) for one in compounds)
        higher = frozenset().union(*above) if above else frozenset[str]()
        first = max(own, key=lambda key: (key.startswith("#"), key.startswith("."), key), default="*")
        held = self._rules[first]
        keys = own or frozenset({"*"})
        if held and (held[-1].keys, held[-1].above) == (keys, higher):
            held[-1] = replace(held[-1], says={**held[-1].says, **says})
            return
        if len(held) >= _OF_KEY:
            return
        self._count += 1
        every = [*own, *higher]
        ids, classes = (sum(key.startswith(sign) for key in every) for sign in "#.")
        rank = (ids, classes, len(every) - ids - classes, self._count)
        held.append(_Rule(keys, higher, rank, says))


def _blocks(text: str) -> Iterable[str]:
    at = 0
    while (found := _BLOCK.search(text, at)) is not None:
        if found[0] == "<!--":
            end = text.find("-->", found.end())
            if end < 0:
                return
            at = end
            continue
        # Where it does not end, the page has nothing else.
        closed = _CLOSED.search(text, found.end())
        end = closed.start() if closed else len(text)
        media = _MEDIA.search(found[1])
        if media is None or _holds(f"@media {media[1]}"):
            yield text[found.end() : end]
        at = end


def _holds(prelude: str) -> bool:
    """Whether the rules of such a block are for every window."""
    name, _, rest = prelude.partition(" ")
    if name in ("@layer", "@supports"):
        return True
    words = {one.strip().removeprefix("only ").strip() for one in rest.lower().split(",")}
    return name == "@media" and bool(words & {"", "all", "screen"})


def _past(css: str, brace: int) -> int:
    """Where the block that begins at `brace` ends."""
    depth = 0
    for found in _BRACE.finditer(css, brace):
        depth += 1 if found[0] == "{" else -1
        if not depth:
            return found.end()
    return len(css)


def _declared(style: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for one in "".join(style.split()).split(";"):
        name, colon, value = one.partition(":")
        if colon and value:
            made[name] = value
    return made
