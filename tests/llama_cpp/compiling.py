"""Run by the Python of `hack.llama_cpp`: compiles schemas to grammars of llama.cpp. Its argument is a model's file.

Each line of the input is `{"schema", "fits", "wrong"}`, each line of the output `{"refused"}` or `{"fits", "wrong"}`:
for each of these texts whether the grammar takes all its bytes and then an end.

The converter is llama-cpp-python's, a copy of llama.cpp's in Python, without what it has lost on the way: backslashes
and letters that are not ASCII in literals (its server answers with any JSON then). The grammar is read and followed by
llama.cpp itself. llama.cpp's own converter is in Ollama's binary (`tests/ollama`).
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import re
import sys
import types
from typing import Any

# In that Python alone.
llama_cpp: Any = importlib.import_module("llama_cpp")
llama_grammar: Any = importlib.import_module("llama_cpp.llama_grammar")
# As in llama.cpp's common/json-schema-to-grammar.cpp.
llama_grammar.GRAMMAR_LITERAL_ESCAPE_RE = re.compile(r'[\r\n"\\]')
llama_grammar.GRAMMAR_LITERAL_ESCAPES["\\"] = "\\\\"
llama_grammar.json = types.SimpleNamespace(loads=json.loads, dumps=functools.partial(json.dumps, ensure_ascii=False))

_END, _FIRST = 2, 3
"""Tokens of `tests.ollama.gguf`: the end, and the byte 0."""


def _loaded(path: str) -> Any:
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    return llama_cpp.llama_model_get_vocab(llama_cpp.llama_model_load_from_file(path.encode(), parameters))


def _takes(vocabulary: Any, grammar: str, text: bytes) -> bool:
    sampler = llama_cpp.llama_sampler_init_grammar(vocabulary, grammar.encode(), b"root")
    try:
        for token in [*(_FIRST + byte for byte in text), _END]:
            one = (llama_cpp.llama_token_data * 1)(llama_cpp.llama_token_data(token, 0.0, 0.0))
            tokens = llama_cpp.llama_token_data_array(data=one, size=1, selected=-1, sorted=False)
            llama_cpp.llama_sampler_apply(sampler, ctypes.byref(tokens))
            if one[0].logit == float("-inf"):
                return False
            if token != _END:
                llama_cpp.llama_sampler_accept(sampler, token)
    finally:
        llama_cpp.llama_sampler_free(sampler)
    return True


def _answer(vocabulary: Any, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        grammar = llama_grammar.json_schema_to_gbnf(json.dumps(asked["schema"]))
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        return {"refused": repr(error)}
    sampler = llama_cpp.llama_sampler_init_grammar(vocabulary, grammar.encode(), b"root")
    if not sampler:
        return {"refused": "llama.cpp cannot read the grammar"}
    llama_cpp.llama_sampler_free(sampler)
    return {kind: [_takes(vocabulary, grammar, text.encode()) for text in asked[kind]] for kind in ("fits", "wrong")}


def main() -> None:
    """One line for each."""
    vocabulary = _loaded(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(_answer(vocabulary, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
