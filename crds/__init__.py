"""The vocabulary of Jervis: the three custom resources and the words every room shares.

I own: the pydantic models of PendingTask, Connection and GpuBackend, their phases, conditions, value objects
(`scope`, `priority`, `exits`) and the base of all errors. The CRD manifests in this folder are generated from the
models by `python -m crds`; they are never edited by hand.

Who may call me: everybody. I import nothing of ours and do no I/O, but for `keyring`, which reads keys from a folder.
"""

GROUP = "jervis.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
