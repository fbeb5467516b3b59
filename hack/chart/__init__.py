"""Keeps what the chart repeats from elsewhere equal to its source: the CRDs, the operator's table of phases in the
admission policies, the settings of the processes in values.schema.json, and the README's table of values.

`python -m hack.chart` renews those files in place; the tests compare. I never decide what a value is called.
"""
