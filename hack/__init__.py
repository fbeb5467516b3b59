"""Set-up tools of a checkout: the local Kubernetes with its data services, the project image, the chart, the demo.

I own nothing that runs in production. `make`, CI and tests call me (`python -m hack.cluster`, `python -m hack.image`,
`python -m hack.demo`, `hack.cluster.standalone`); no package of Jervis imports me. `cluster` and `image` run on the
standard library alone, so that a system `python3` can start them before any environment exists; `chart` and `demo`
read our own models and need the environment.
"""
