"""The engines that compile JSON Schema inside a Python process: llguidance (vLLM, SGLang, llama.cpp) and outlines-core
(vLLM, MLX, TGI). Tokens of the tests are bytes; a vocabulary of words is given by the caller."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import llguidance
import outlines_core
from outlines_core import json_schema

BYTES = tuple(bytes([value]) for value in range(256))


class Refused(ValueError):  # noqa: N818 -- named for what is wrong
    """The engine does not take the schema."""


class Grammar(Protocol):
    """A schema that is compiled, at the place that `take` has brought it to; tokens are numbers."""

    def again(self) -> Grammar:
        """The same at its beginning."""
        ...

    def mask(self) -> set[int] | bytes:
        """The tokens that may come next: numbers, or a bit for each."""
        ...

    def take(self, token: int) -> bool:
        """Whether the token may come next; it is taken then."""
        ...

    def done(self) -> bool:
        """Whether the answer may end here."""
        ...


def accepts(grammar: Grammar, tokens: Iterable[int]) -> bool:
    """Whether the tokens are a whole answer."""
    return all(grammar.take(token) for token in tokens) and grammar.done()


def allowed(grammar: Grammar) -> set[int]:
    """The tokens of the mask."""
    mask = grammar.mask()
    if isinstance(mask, set):
        return mask
    return {at * 8 + bit for at, byte in enumerate(mask) for bit in range(8) if byte >> bit & 1}


class _Vocabulary:
    """llguidance's protocol of a tokenizer; the end is the last token."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self.tokens = [*tokens, b"</s>"]
        self.eos_token_id = len(tokens)
        self.bos_token_id = None
        self.special_token_ids = [self.eos_token_id]

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


class Llguidance:
    """Compiles to a lexer and an Earley parser."""

    name = "llguidance"

    def __init__(self, tokens: Sequence[bytes] = BYTES) -> None:
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Vocabulary(tokens)))

    def compile(self, schema: Mapping[str, Any]) -> _Matcher:
        """Raises Refused."""
        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        except ValueError as error:
            raise Refused(str(error)) from error
        matcher = llguidance.LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise Refused(matcher.get_error())
        return _Matcher(matcher)


class _Matcher:
    def __init__(self, matcher: llguidance.LLMatcher) -> None:
        self._matcher = matcher

    def again(self) -> _Matcher:
        beginning = self._matcher.deep_copy()
        beginning.reset()
        return _Matcher(beginning)

    def mask(self) -> bytes:
        return self._matcher.compute_bitmask()

    def take(self, token: int) -> bool:
        return self._matcher.try_consume_tokens([token]) == 1

    def done(self) -> bool:
        return self._matcher.is_accepting()


class Outlines:
    """Compiles to a regular expression, and this to an automaton over the tokens."""

    name = "outlines-core"

    def __init__(self, tokens: Sequence[bytes] = BYTES) -> None:
        numbers: dict[bytes, list[int]] = {}
        for number, token in enumerate(tokens):
            numbers.setdefault(token, []).append(number)
        self._vocabulary = outlines_core.Vocabulary(len(tokens), numbers)

    def compile(self, schema: Mapping[str, Any]) -> _Automaton:
        """Raises Refused."""
        try:
            regex = json_schema.build_regex_from_schema(json.dumps(schema))
            return _Automaton(outlines_core.Index(regex, self._vocabulary))
        except (ValueError, TypeError) as error:
            raise Refused(str(error)) from error


class _Automaton:
    def __init__(self, index: Any) -> None:
        self._index = index
        self._state = index.get_initial_state()

    def again(self) -> _Automaton:
        return _Automaton(self._index)

    @property
    def states(self) -> int:
        """How many there are: time and memory follow them."""
        return len(self._index.get_transitions())

    def mask(self) -> set[int]:
        return set(self._index.get_allowed_tokens(self._state) or ())

    def take(self, token: int) -> bool:
        state = self._index.get_next_state(self._state, token)
        if state is None:
            return False
        self._state = state
        return True

    def done(self) -> bool:
        return bool(self._index.is_final_state(self._state))
