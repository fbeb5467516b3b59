"""Every test of Jervis, mirroring the packages, and the stand-ins for the world outside (`tests.fakes`).

A regular package on purpose: `python -m tests.fakes.ollama` must find this folder and never some dependency's own
`tests` package further down the path.
"""
