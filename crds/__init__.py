"""The vocabulary of Jervis: the three custom resources and the types that all packages share.

I own: the pydantic models of PendingTask, Connection and GpuBackend, their phases, conditions, value objects
(`scope`, `priority`, `exit_reasons`) and the base of all errors. The CRD manifests in this folder are generated from
the models by `python -m crds`; they are never edited by hand.

Who may call me: every package. I import no other package of Jervis and do no I/O.
"""

GROUP = "jervis.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
