"""The demonstration: real input applied as tasks to a real Kubernetes, watched until each has ended.

I own the release in the demonstration's namespace, the tasks labelled `jervis.dev/demo` and the sentences on the
terminal. `python -m hack.demo up|down|env` is my root (`__main__.py`); `make demo` and the end-to-end tests call
me. I reach the cluster through kubectl and helm alone, as a user would, and never touch an object that I did not make.
Unlike the rest of `hack/` I run in the project's environment (`.venv`): I read tasks through the models of `crds`.
"""
