"""The vocabulary of Jervis: the three custom resources and the types that all packages share.

I own: the pydantic models of PendingTask, Connection and GpuBackend, their phases, conditions, value objects
(`scope`, `priority`, `exits`), the base of all errors, the answers that they become (`problems`) and the form of the
services' OpenAPI documents (`openapi`). The CRD manifests in this folder are generated from the models by
`python -m crds`; they are never edited by hand.

Who may call me: every package. I import no other package of Jervis and do no I/O, except in `keyring`, which reads keys
from a folder, and `authorities`, which reads certificates.
"""

GROUP = "jervis.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
