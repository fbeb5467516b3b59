"""Which Ollama servers there are and how they are: the book, its circuit breakers and where its entries come from.

I own: `book` (every backend with what was last observed of it), `circuit` (pure), and the sources `environment`
(`GPU_BACKENDS`) and `kube` (GpuBackend objects, watched). Who may call me: the router's other rooms. What I never do:
talk to a backend (that is `router.health` and `router.proxy`) or choose one (that is `router.scheduler`).
"""
