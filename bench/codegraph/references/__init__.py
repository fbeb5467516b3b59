"""Parsers of the languages themselves: each a small program that prints what `python -m codegraph extract` prints.

A program gets a folder as its argument and paths below it on stdin, one a line. What its parser does not accept is
listed under `rejected` and not compared. The names: docs/benchmarks.md, "Code".
"""
