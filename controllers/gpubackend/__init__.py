"""GpuBackend: is the server there, and does it have its models?

`probe` asks it, `decide` turns the answer into conditions (pure), `slots` counts what is free (pure), `reconcile` is
the shell: probes with backoff, status written on change only.
"""
