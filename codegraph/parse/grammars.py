"""The grammars: one pinned wheel for each, loaded when the first file of its language comes."""

from __future__ import annotations

import functools
import importlib

import tree_sitter

_GRAMMARS = {
    "bash": ("tree_sitter_bash", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "kotlin": ("tree_sitter_kotlin", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "python": ("tree_sitter_python", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "scala": ("tree_sitter_scala", "language"),
    "swift": ("tree_sitter_swift", "language"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
LANGUAGES = tuple(_GRAMMARS)
_ENDINGS = {
    "bash": ".sh .bash",
    "c": ".c .h",
    "cpp": ".cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .ipp .inl .cu .cuh",
    "csharp": ".cs",
    "go": ".go",
    "java": ".java",
    "javascript": ".js .jsx .mjs .cjs",
    "kotlin": ".kt .kts",
    "php": ".php",
    "python": ".py .pyi .pyw",
    "ruby": ".rb .rake .gemspec",
    "rust": ".rs",
    "scala": ".scala .sc",
    "swift": ".swift",
    "tsx": ".tsx",
    "typescript": ".ts .mts .cts",
}
_LANGUAGE_OF = {ending: language for language, endings in _ENDINGS.items() for ending in endings.split()}


def language_of(path: str) -> str | None:
    """The language of a file by the end of its name, a key of `LANGUAGES`; none for other files."""
    name = path.rpartition("/")[2]
    stem, dot, ending = name.rpartition(".")
    return _LANGUAGE_OF.get(f".{ending.lower()}") if dot and stem else None


@functools.cache
def load(language: str) -> tree_sitter.Language:
    """The grammar of a language. Raises KeyError for one that is not in `LANGUAGES`."""
    module, function = _GRAMMARS[language]
    return tree_sitter.Language(getattr(importlib.import_module(module), function)())


def endings(language: str) -> tuple[str, ...]:
    """The endings of the names of its files."""
    return tuple(_ENDINGS[language].split())
