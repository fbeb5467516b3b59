"""Keeps what the chart repeats from elsewhere equal to its source: the CRDs, and the README's table of values.

`python -m hack.chart` renews both files sets in place; the tests compare. I never decide what a value is called.
"""
