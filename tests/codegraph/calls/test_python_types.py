"""What the receiver of a call is in Python: by declarations, assignments, annotations, and what functions return."""

from __future__ import annotations

import pytest

from tests.codegraph.calls import projects

_CLASSES = """\
import asyncio, contextlib, dataclasses, enum, functools, typing
from typing import *
class Base:
    def m(self): ...
    @classmethod
    def make(cls): return cls()
    @classmethod
    def typed(cls) -> "Self": ...
    @staticmethod
    def s(): ...
class A(Base):
    def n(self): ...
    @property
    def other(self) -> "B": ...
    @other.setter
    def other(self, value): ...
    def __enter__(self): return self
    def __iter__(self) -> Iterator["B"]: ...
    def __getitem__(self, key) -> "B": ...
    def __truediv__(self, other) -> "B": ...
    async def fetch(self) -> "B": ...
class B:
    def b(self): ...
class Box(Generic[T]):
    def get(self) -> T: ...
T = TypeVar("T")
def same(x: T) -> T: ...
def build(kind: Type[T]) -> T: ...
"""
_CASES = {
    "local": ("def f(): ...\ndef g(): f()", "g -> f: local"),
    "constructor": ("A()", "-> A: constructor"),
    "assigned": ("x = A()\nx.n()", "-> A.n: return-type, -> A: constructor"),
    "inherited": ("def f(a: A): a.m()", "f -> Base.m: annotation"),
    "class method": ("A.make().n()", "-> A.n: return-type, -> Base.make: return-type"),
    "class method by annotation": ("A.typed().n()", "-> A.n: return-type, -> Base.typed: return-type"),
    "static method": ("A.s()", "-> Base.s: local"),
    "property": ("def f(a: A): a.other.b()", "f -> B.b: attribute-type"),
    "optional": ("def f(a: Optional[A]): a.n()", "f -> A.n: annotation"),
    "either": ("def f(a: A | B): a.n(); a.b()", "f -> A.n: annotation, f -> B.b: annotation"),
    "element of a list": ("def f(a: list[A]):\n  for x in a: x.n()", "f -> A.n: return-type"),
    "value of a dict": ("def f(a: dict[str, A]):\n  for k, x in a.items(): x.n()", "f -> A.n: return-type"),
    "element of a tuple": ("def f(a: tuple[A, B]): a[1].b(); x, y = a; y.b()", "f -> B.b: return-type"),
    "comprehension": ("def f(a: list[A]): [x.n() for x in a]", "f -> A.n: return-type"),
    "lambda": ("def f(): g = lambda a=A(): a.n()", "f -> A.n: argument, f -> A: constructor"),
    "enumerate": ("def f(a: list[A]):\n  for i, x in enumerate(a): x.n()", "f -> A.n: return-type"),
    "with": ("with A() as x: x.n()", "-> A.n: return-type, -> A: constructor"),
    "iteration": ("def f(a: A):\n  for x in a: x.b()", "f -> B.b: return-type"),
    "subscript": ("def f(a: A): a[0].b()", "f -> B.b: return-type"),
    "operator": ("def f(a: A): (a / 1).b()", "f -> B.b: return-type"),
    "await": ("async def f(a: A): (await a.fetch()).b()", "f -> A.fetch: annotation, f -> B.b: return-type"),
    "type variable": ("same(A()).n()", "-> A.n: return-type, -> A: constructor, -> same: local"),
    "class as an argument": ("build(A).n()", "-> A.n: return-type, -> build: local"),
    "generic class": ("def f(a: Box[A]): a.get().n()", "f -> A.n: return-type, f -> Box.get: annotation"),
    "inferred result": ("def g(): return A()\ndef f(): g().n()",
                        "f -> A.n: return-type, f -> g: local, g -> A: constructor"),
    "cast": ("def f(x): cast(A, x).n()", "f -> A.n: return-type"),
    "isinstance": ("def f(x):\n  if isinstance(x, A): x.n()", "f -> A.n: return-type"),
    "not isinstance": ("def f(x: A | B):\n  if isinstance(x, A): return\n  x.b()", "f -> B.b: return-type"),
    "match": ("def f(x):\n  match x:\n    case A(): x.n()\n    case B() as y: y.b()",
              "f -> A.n: return-type, f -> B.b: return-type"),
    "except": ("class E(Exception):\n  def e(self): ...\ntry: ...\nexcept E as x: x.e()", "-> E.e: return-type"),
    "partial": ("def g(): ...\nx = functools.partial(g, 1)\nx()", "-> g: return-type"),
    "generator manager": ("@contextlib.contextmanager\ndef g(): yield A()\nwith g() as x: x.n()",
                          "-> A.n: return-type, -> g: local, g -> A: constructor"),
    "argument": ("def g(x): x.n()\ng(A())", "-> A: constructor, -> g: local, g -> A.n: argument"),
    "walrus": ("if (x := A()): x.n()", "-> A.n: return-type, -> A: constructor"),
    "last assignment": ("x = A()\nx = B()\nx.b()\nx.n()", "-> A: constructor, -> B.b: return-type, -> B: constructor"),
    "on the way round": ("def f():\n  x = None\n  while 1:\n    if x: x.n()\n    x = A()",
                         "f -> A.n: return-type, f -> A: constructor"),
    "loop and branch": ("def f(c):\n  if c: x = A()\n  else: x = B()\n  x.n()\n  x.b()",
                        "f -> A.n: return-type, f -> A: constructor, f -> B.b: return-type, f -> B: constructor"),
    "nested function": ("def f():\n  def g(): ...\n  return g()", "f -> f.g: local"),
    "global": ("x = None\ndef f():\n  global x\n  x = A()\ndef g(): x.n()",
               "f -> A: constructor, g -> A.n: return-type"),
    "calling an object": ("class C:\n  def __call__(self): ...\nC()()",
                          "-> C.__call__: return-type, -> C: constructor"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "wanted"), _CASES.values(), ids=_CASES)
def test_the_receiver_is_known(source: str, wanted: str) -> None:
    assert ", ".join(sorted(set(projects.below(_CLASSES, source)))) == wanted


def test_self_super_and_attributes() -> None:
    source = """\
        class Base:
            def __init__(self): self.kept = Kept()
            def over(self): return self.hook()
            def hook(self): ...
            @classmethod
            def make(cls): return cls()
        class Kept:
            def use(self): ...
        class Child(Base):
            field: "Kept"
            def __init__(self):
                super().__init__()
                self.hook()
                self.over()
                self.kept.use()
                self.field.use()
                self.__class__()
            def hook(self):
                super(Child, self).hook()
                def inner():
                    super().over()
            @classmethod
            def make(cls): return super().make()
        """
    assert projects.inside(source) == [
        "2 Base.__init__ -> Kept: constructor",
        "6 Base.make -> Base: constructor",
        "3 Base.over -> Base.hook: self",
        "12 Child.__init__ -> Base.__init__: inherited",
        "14 Child.__init__ -> Base.over: inherited",
        "17 Child.__init__ -> Child: constructor",
        "13 Child.__init__ -> Child.hook: self",
        "15 Child.__init__ -> Kept.use: attribute-type",
        "16 Child.__init__ -> Kept.use: attribute-type",
        "19 Child.hook -> Base.hook: inherited",
        "21 Child.hook.inner -> Base.over: inherited",
        "23 Child.make -> Base.make: inherited",
    ]


def test_the_order_of_ancestors_is_that_of_python() -> None:
    source = """\
        class A:
            def f(self): ...
        class B(A):
            def g(self): ...
        class C(A):
            def f(self): ...
        class D(B, C):
            def h(self):
                self.f()
                super().f()
        """
    assert projects.inside(source) == ["9 D.h -> C.f: inherited", "10 D.h -> C.f: inherited"]


def test_a_bare_name_links_nothing() -> None:
    found = projects.resolve({"a.py": "class A:\n    def run(self): ...", "b.py": "def f(x): x.run()\nrun()"})
    assert found.edges == ()
    assert [(one.caller, one.name, one.line) for one in found.unresolved] == [("", "run", 2), ("f", "run", 1)]


def test_classes_that_inherit_from_each_other_end() -> None:
    source = "class A(B):\n    def f(self): self.g()\nclass B(A):\n    def g(self): self.f()\ndef f(x): return f(x)"
    assert projects.inside(source)[-1] == "5 f -> f: local"


def test_an_expression_of_great_depth_gives_no_facts_and_no_failure() -> None:
    assert projects.facts({"a.py": "x = " + "(" * 3000 + "f()" + ")" * 3000}) == {}


def test_the_order_of_files_changes_nothing() -> None:
    contents = {
        "a.py": "from b import B\ndef f(): return B().g()",
        "b.py": "from c import C\nclass B:\n    def g(self): return C()",
        "c.py": "import a\nclass C:\n    def h(self): a.f().h()",
    }
    backwards = dict(reversed(contents.items()))
    assert projects.resolve(contents) == projects.resolve(backwards)
    assert [edge.callee for edge in projects.resolve(contents).edges] == ["B", "B.g", "C", "f", "C.h"]
