"""A real Kubernetes on one Linux machine, built from package registries, inside one network namespace.

I own the namespace, the state directory (`layout`), the run directory (`/run/jervis-cluster/NAME`) and every process
recorded there. `python -m hack.cluster` is my root (`__main__.py`); tests may call `standalone.apiserver`. I never stop
a process that I did not start and never listen outside the namespace and loopback.
"""
