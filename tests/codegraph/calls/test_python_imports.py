"""Which file of a Python project a name comes from."""

from __future__ import annotations

import pytest

from tests.codegraph.calls import projects

_CALL = {
    "absolute": ("from pkg.a import f\nf()", "import"),
    "module": ("import pkg.a\npkg.a.f()", "import"),
    "alias of a module": ("import pkg.a as m\nm.f()", "import"),
    "alias of a name": ("from pkg.a import f as g\ng()", "import"),
    "submodule of a package": ("from pkg import a\na.f()", "import"),
    "re-export": ("from pkg import f\nf()", "import"),
    "in a function": ("def main():\n    from pkg.a import f\n    f()", "import"),
    "only for the type checker": ("if TYPE_CHECKING:\n    from pkg.a import f\nf()", "import"),
    "star": ("from pkg import *\nf()", "import"),
}


@pytest.mark.parametrize("name", _CALL)
@pytest.mark.parametrize("root", ["", "src/", "backend/src/"])
def test_an_import_is_found_in_every_layout(root: str, name: str) -> None:
    source, rule = _CALL[name]
    caller = "main" if "def main" in source else ""
    contents = {
        f"{root}pkg/__init__.py": "from .a import *",
        f"{root}pkg/a.py": "def f(): ...\ndef _hidden(): ...",
        "backend/pyproject.toml": "",
        f"{root}main.py": source,
    }
    assert projects.edges(contents) == [f"{root}main.py:{caller} -> {root}pkg/a.py:f: {rule}"]


def test_relative_imports_begin_at_the_package() -> None:
    contents = {
        "p/__init__.py": "from . import a\nfrom .b import g\na.f()\ng()",
        "p/a.py": "def f(): ...",
        "p/b/__init__.py": "from .c import g\nfrom ..a import f\nf()",
        "p/b/c.py": "from .. import a\nfrom ..a import f as h\ndef g(): a.f(), h()",
    }
    assert projects.edges(contents) == [
        "p/__init__.py: -> p/a.py:f: import",
        "p/__init__.py: -> p/b/c.py:g: import",
        "p/b/__init__.py: -> p/a.py:f: import",
        "p/b/c.py:g -> p/a.py:f: import",
    ]


def test_a_root_that_is_a_package_is_known_by_its_imports() -> None:
    contents = {
        "__init__.py": "from pkg.a import f",
        "a.py": "def f(): ...",
        "b.py": "import pkg\nimport os.path\npkg.f()",
    }
    assert projects.edges(contents) == ["b.py: -> a.py:f: import"]


def test_a_star_brings_what_all_says() -> None:
    module = "__all__ = ['f']\ndef f(): ...\ndef g(): ..."
    found = projects.resolve({"a.py": module, "b.py": "from a import *\nf()\ng()"})
    assert [edge.callee for edge in found.edges] == ["f"]
    assert [(one.name, one.line) for one in found.unresolved] == [("g", 3)]


def test_namespace_packages_need_no_init() -> None:
    contents = {"n/p/a.py": "def f(): ...", "main.py": "from n.p.a import f\nimport n.p.a\nf()\nn.p.a.f()"}
    assert projects.edges(contents) == ["main.py: -> n/p/a.py:f: import"] * 2


def test_two_packages_of_one_name_are_told_apart_by_their_root() -> None:
    contents = {
        "one/tests/__init__.py": "",
        "one/tests/making.py": "def f(): ...",
        "one/tests/test_a.py": "from tests.making import f\nf()",
        "two/tests/__init__.py": "",
        "two/tests/making.py": "def f(): ...",
        "two/tests/test_a.py": "from tests.making import f\nf()",
    }
    assert projects.edges(contents) == [
        "one/tests/test_a.py: -> one/tests/making.py:f: import",
        "two/tests/test_a.py: -> two/tests/making.py:f: import",
    ]


def test_a_name_of_the_standard_library_is_not_a_file_beside() -> None:
    found = projects.resolve({"d/logging.py": "def getLogger(): ...", "d/a.py": "import logging\nlogging.getLogger()"})
    assert found.edges == ()
    assert [one.name for one in found.unresolved] == ["getLogger"]


def test_conditional_imports_may_mean_both() -> None:
    source = "try:\n    from a import f\nexcept ImportError:\n    def f(): ...\nf()"
    contents = {"a.py": "def f(): ...", "b.py": source}
    assert projects.edges(contents) == ["b.py: -> a.py:f: import", "b.py: -> b.py:f: local"]


def test_modules_that_import_each_other_end() -> None:
    contents = {
        "a.py": "from b import *\nfrom b import x\nf()\nx()",
        "b.py": "from a import *\nfrom a import x\ndef f(): ...",
    }
    assert projects.edges(contents) == ["a.py: -> b.py:f: import"]
