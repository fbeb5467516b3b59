"""What the standard library says about types, as far as calls of a project depend on it. Data only.

Names are the last parts of dotted names: `typing.List`, `list` and `collections.abc.Sequence` differ in nothing here.
"""

from __future__ import annotations

SAME = {
    "List": "list", "Set": "set", "FrozenSet": "frozenset", "Dict": "dict", "Tuple": "tuple", "Deque": "deque",
    "DefaultDict": "dict", "OrderedDict": "dict", "defaultdict": "dict", "Mapping": "dict", "MutableMapping": "dict",
    "WeakValueDictionary": "dict", "WeakKeyDictionary": "dict", "ChainMap": "dict", "MappingProxyType": "dict",
    "Sequence": "list", "MutableSequence": "list", "Collection": "list", "AbstractSet": "set", "MutableSet": "set",
    "WeakSet": "set", "Text": "str",
}  # fmt: skip
"""Types that are read as another one."""

ELEMENTS = frozenset([
    "list", "set", "frozenset", "deque", "dict", "Iterable", "Iterator", "Generator", "AsyncIterable",
    "AsyncIterator", "AsyncGenerator", "Reversible", "KeysView", "ValuesView", "Container", "enumerate"
])  # fmt: skip
"""Types whose iteration gives their first argument."""

AWAITED = frozenset(["Awaitable", "Coroutine", "Future", "Task", "Generator"])
"""Types whose `await` gives their last argument."""

MANAGERS = frozenset([
    "ContextManager", "AbstractContextManager", "AsyncContextManager", "AbstractAsyncContextManager", "closing",
    "nullcontext"
])  # fmt: skip
"""Types whose `with` gives their first argument."""

WRAPPERS = frozenset([
    "Annotated", "ClassVar", "Final", "Required", "NotRequired", "ReadOnly", "InitVar", "Unpack", "TypeGuard"
])  # fmt: skip
"""Annotations that say their first argument."""

METHODS: dict[str, dict[str, int | str]] = {
    "dict": {
        "get": 1, "pop": 1, "setdefault": 1, "values": "of 1", "keys": "of 0", "items": "pairs", "copy": "self",
        "popitem": "pair", "__getitem__": 1,
    },
    "list": {"pop": 0, "copy": "self", "__getitem__": 0},
    "deque": {"pop": 0, "popleft": 0, "copy": "self"},
    "set": {
        "pop": 0, "copy": "self", "union": "self", "difference": "self", "intersection": "self",
        "symmetric_difference": "self",
    },
    "Queue": {"get": "await 0", "get_nowait": 0},
    "ContextVar": {"get": 0},
    "Task": {"result": 0},
    "Future": {"result": 0},
    "Generator": {"send": 0, "__next__": 0, "__anext__": "await 0"},
    "Iterator": {"__next__": 0},
    "AsyncIterator": {"__anext__": "await 0"},
}  # fmt: skip
"""What a method of a built-in type gives: the number of the type's argument, or how it is made of them."""

COPIES = frozenset(["list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "deque", "Iterator"])
"""Functions that give a collection of the same elements; tuples become lists of one kind of element."""

PASSES = {
    "copy.copy": 0, "copy.deepcopy": 0, "weakref.proxy": 0, "inspect.unwrap": 0, "asyncio.shield": 0,
    "dataclasses.replace": 0, "attr.evolve": 0, "attrs.evolve": 0, "functools.update_wrapper": 0, "asyncio.wait_for": 0,
    "typing.assert_type": 0, "sys.intern": 0, "contextlib.aclosing": 0, "builtins.aiter": 0,
    "functools.cache": 0, "functools.singledispatch": 0, "typing.final": 0, "typing.overload": 0,
    "typing.runtime_checkable": 0, "abc.abstractmethod": 0,
}  # fmt: skip
"""Functions that give what they are given: the position of the argument."""

PROPERTIES = frozenset([
    "property", "cached_property", "functools.cached_property", "abc.abstractproperty", "reify",
    "under_cached_property"
])  # fmt: skip
MANAGER_DECORATORS = frozenset(["contextlib.contextmanager", "contextlib.asynccontextmanager"])
