"""The project image: its local base, its build, and its way into the local cluster.

I own what lies in the cache's `image` folder: buildah's storage and the exported layers. `python -m hack.image` is my
root (`__main__.py`). I never talk to a registry, and nothing about the machine's package sources stays in an image.
"""
