"""Set-up tools of a checkout: the local Kubernetes with its data services, and the project image.

I own nothing that runs in production. `make`, CI and tests call me (`python -m hack.cluster`, `python -m hack.image`,
`hack.cluster.standalone`); no package of Jervis imports me, and I import none of them. I run on the standard library
alone, so that a system `python3` can start me before any environment exists.
"""
