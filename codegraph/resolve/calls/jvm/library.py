"""What a few types of the JDK give: elements of collections, and the shapes of functional interfaces.

Source: https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/package-summary.html
"""

from __future__ import annotations

from codegraph.resolve.calls.jvm.types import Type

_ONE = frozenset([
    "List", "Collection", "Set", "Iterable", "Iterator", "ListIterator", "Deque", "Queue", "ArrayList", "LinkedList",
    "HashSet", "LinkedHashSet", "TreeSet", "SortedSet", "NavigableSet", "ArrayDeque", "PriorityQueue", "Stream",
    "Optional", "Vector", "Stack", "CopyOnWriteArrayList", "ConcurrentLinkedQueue", "BlockingQueue", "EnumSet",
    "AtomicReference", "ThreadLocal", "WeakReference", "SoftReference", "Reference", "Future", "CompletableFuture",
    "Supplier", "Callable", "AtomicReferenceArray", "LinkedBlockingQueue", "Enumeration", "Sequence", "MutableList",
    "MutableSet", "MutableCollection", "MutableIterator", "Class", "ConcurrentLinkedDeque", "CopyOnWriteArraySet",
    "Spliterator", "Lazy",
])  # fmt: skip
_TWO = frozenset([
    "Map", "HashMap", "LinkedHashMap", "TreeMap", "SortedMap", "NavigableMap", "ConcurrentHashMap", "ConcurrentMap",
    "EnumMap", "IdentityHashMap", "WeakHashMap", "Hashtable", "Entry", "SimpleEntry", "MutableMap", "Pair",
    "ConcurrentSkipListMap",
])  # fmt: skip
_ELEMENT = frozenset([
    "get", "next", "previous", "poll", "peek", "pop", "first", "last", "getFirst", "getLast", "element", "take",
    "orElse", "orElseGet", "orElseThrow", "call", "join", "removeFirst", "removeLast", "pollFirst", "pollLast",
    "peekFirst", "peekLast", "remove", "getAndSet", "getNow", "getPlain", "elementAt", "nextElement", "newInstance",
    "cast", "firstElement", "lastElement", "firstOrNull", "lastOrNull", "single", "singleOrNull", "find", "getOrNull",
    "removeAt", "random", "getValue", "value", "set", "higher", "lower", "ceiling", "floor", "accumulateAndGet",
    "updateAndGet", "getAcquire", "resultNow",
])  # fmt: skip
_SAME = frozenset([
    "filter", "sorted", "limit", "skip", "distinct", "peek", "subList", "parallel", "sequential", "onClose", "reversed",
    "takeWhile", "dropWhile", "unordered", "clone", "filterNot", "take", "drop", "sortedBy", "sortedWith",
    "sortedByDescending", "headSet", "tailSet", "descendingSet", "or",
])  # fmt: skip
_MAPPED = frozenset(["map", "mapNotNull", "mapIndexed"])
_WRAPPED = {
    "iterator": "Iterator",
    "listIterator": "ListIterator", "stream": "Stream", "parallelStream": "Stream",
    "findFirst": "Optional", "findAny": "Optional", "descendingIterator": "Iterator", "elements": "Enumeration",
    "toList": "List",
    "toSet": "Set", "toMutableList": "MutableList", "asSequence": "Sequence", "asIterable": "Iterable",
    "asReversed": "List", "toSortedSet": "Set", "spliterator": "Spliterator",
}  # fmt: skip
_VALUE = frozenset([
    "get", "put", "remove", "getOrDefault", "putIfAbsent", "computeIfAbsent", "compute", "computeIfPresent", "merge",
    "getValue", "setValue", "replace", "getOrPut", "getOrElse", "value", "second",
])  # fmt: skip
_FACTORIES = frozenset(["of", "ofNullable", "copyOf"])
_BOXES = frozenset(["Integer", "Long", "Boolean", "Character", "Byte", "Short", "Double", "Float"])
_SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "Function": ((0,), 1), "BiFunction": ((0, 1), 2), "Supplier": ((), 0), "Consumer": ((0,), -1),
    "BiConsumer": ((0, 1), -1),
    "Predicate": ((0,), -1), "BiPredicate": ((0, 1), -1), "UnaryOperator": ((0,), 0),
    "BinaryOperator": ((0, 0), 0), "Comparator": ((0, 0), -1), "Callable": ((), 0), "Runnable": ((), -1),
    "ToIntFunction": ((0,), -1),
    "ToLongFunction": ((0,), -1), "ToDoubleFunction": ((0,), -1), "IntFunction": ((-1,), 0),
    "LongFunction": ((-1,), 0), "DoubleFunction": ((-1,), 0), "IntPredicate": ((-1,), -1), "PrivilegedAction": ((), 0),
    "BooleanSupplier": ((), -1), "IntSupplier": ((), -1), "LongSupplier": ((), -1), "IntUnaryOperator": ((-1,), -1),
}  # fmt: skip
"""Parameters and the result by the positions of type arguments; -1 is no argument."""
OBJECT = frozenset([
    "toString", "equals", "hashCode", "getClass", "notify", "notifyAll", "wait", "finalize", "clone"
])  # fmt: skip
"""Methods of java.lang.Object, which every type has."""


def element(item: Type) -> Type:
    """What iteration over a type of elsewhere, or an array, gives."""
    if item is None:
        return None
    if item[0] == "[]":
        return _type(item[1])
    if item[0] == "X" and item[2]:
        if item[1] in _TWO:
            return ("X", "Entry", item[2])
        return _type(item[2][0]) if item[1] in _ONE else None
    return None


def _type(item: Type) -> Type:
    """An argument as a type: those of a tuple have no type of their own."""
    return item


def method(item: Type, name: str, mapped: Type) -> Type:
    """What a method of a type of elsewhere gives. `mapped` is what a lambda that is its argument gives."""
    if item is None or item[0] not in ("X", "[]"):
        return None
    if name == "toString":
        return ("X", "String", ())
    if name == "toArray":
        return ("[]", ("X", "Object", ()))
    if item[0] == "[]":
        return item if name == "clone" else None
    args = item[2]
    if item[1] in _TWO and len(args) > 1:
        if name in _VALUE:
            return _type(args[1])
        if name in ("getKey", "firstKey", "lastKey", "key", "first", "component1"):
            return _type(args[0])
        entries = ("Set", (("X", "Entry", args),))
        found = {
            "values": ("Collection", (args[1],)),
            "keySet": ("Set", (args[0],)),
            "keys": ("Set", (args[0],)),
            "entrySet": entries,
            "entries": entries,
            "firstEntry": ("Entry", args),
            "lastEntry": ("Entry", args),
        }.get(name)
        return None if found is None else ("X", *found)
    if item[1] not in _ONE or not args:
        return None
    if item[1] == "Stream" and name == "peek":
        return item
    if name in _ELEMENT:
        return _type(args[0])
    if name in _SAME:
        return item
    if name in _MAPPED:
        return ("X", item[1] if item[1] in ("Stream", "Optional", "Sequence") else "List", (mapped,))
    if name in ("flatMap", "thenCompose"):
        return mapped
    return ("X", _WRAPPED[name], args[:1]) if name in _WRAPPED else None


def _spread(item: Type) -> Type:
    return item[1] if item is not None and item[0] == "[]" else item


def factory(name: str, method_name: str, first: Type) -> Type:
    """What a static method of a type of elsewhere gives for its first argument."""
    if name in ("List", "Set", "Optional", "Stream", "Collection"):
        return ("X", name, (_spread(first),)) if method_name in _FACTORIES else None
    if method_name == "valueOf" and name in _BOXES:
        return ("X", name, ())
    if name == "Arrays" and method_name in ("asList", "stream"):
        return ("X", "List" if method_name == "asList" else "Stream", (_spread(first),))
    if name == "Objects" and method_name.startswith("requireNonNull"):
        return first
    if name == "Collections":
        kind = (
            "Set" if "Set" in method_name or method_name == "singleton" else "Map" if "Map" in method_name else "List"
        )
        return first if method_name.startswith(("unmodifiable", "synchronized")) else ("X", kind, (first,))
    if name == "String":
        return ("X", "String", ())
    return None


def given(item: Type, name: str, position: int) -> Type:
    """The type of a parameter of a lambda that a method of a type of elsewhere is given."""
    if item is None or item[0] != "X" or not item[2]:
        return None
    args = item[2]
    if name.endswith("Indexed"):
        return args[0] if position == 1 and item[1] in _ONE else None
    if item[1] in _TWO and len(args) > 1:
        if name in ("computeIfAbsent", "merge"):
            return _type(args[0] if name == "computeIfAbsent" else args[1])
        return _type(args[position]) if position < 2 else None
    return (
        _type(args[0])
        if item[1] in _ONE and (position == 0 or name in ("sort", "sorted", "reduce", "max", "min"))
        else None
    )


def shape(item: Type) -> tuple[tuple[Type, ...], Type] | None:
    """Parameters and result of a functional interface of elsewhere."""
    if item is None:
        return None
    if item[0] == "fn":
        return item[1], item[2]
    if item[0] != "X" or item[1] not in _SHAPES:
        return None
    params, result = _SHAPES[item[1]]
    args = item[2]

    def at(position: int) -> Type:
        return args[position] if 0 <= position < len(args) else None

    return tuple(at(one) for one in params), at(result)
