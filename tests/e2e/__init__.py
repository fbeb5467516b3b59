"""Tests on the whole cluster: real pods, real Jobs, real stores; the language models are simulators.

Everything happens in a namespace of its own (`conftest.NAMESPACE`), so a demonstration beside it is not disturbed.
"""
