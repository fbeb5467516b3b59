"""What the language brings: utility types, collections, promises, and what their methods give."""

from __future__ import annotations

SAME = {"ReadonlyArray": "Array", "ConcatArray": "Array", "ArrayLike": "Array", "PromiseLike": "Promise",
        "ReadonlyMap": "Map", "WeakMap": "Map", "ReadonlySet": "Set", "WeakSet": "Set", "Iterator": "Iterable",
        "IterableIterator": "Iterable", "Generator": "Iterable", "AsyncGenerator": "Iterable",
        "AsyncIterable": "Iterable", "AsyncIterator": "Iterable", "AsyncIterableIterator": "Iterable",
        "Thenable": "Promise"}  # fmt: skip
WRAPPERS = frozenset(["Partial", "Required", "Readonly", "Pick", "Omit", "NonNullable", "Exclude", "Extract", "NoInfer",
                      "ThisType"])  # fmt: skip
SAME_ARRAY = frozenset(["concat", "copyWithin", "fill", "filter", "reverse", "slice", "sort", "splice", "toReversed",
                        "toSorted", "toSpliced", "with"])  # fmt: skip
ELEMENT = frozenset(["at", "find", "findLast", "pop", "shift"])
CALLED_WITH_ELEMENT = frozenset(["every", "filter", "find", "findIndex", "findLast", "findLastIndex", "flatMap",
                                 "forEach", "map", "some"])  # fmt: skip
"""Methods of arrays that call their argument with an element."""
GLOBALS = frozenset(["Array", "Map", "Object", "Promise", "Reflect", "Set", "WeakMap", "WeakSet"])
