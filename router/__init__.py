"""The Ollama router: one address in front of every GPU and CPU backend, handing out slots by urgency.

I own: the scheduler (`scheduler` and what it is put together from: `waiting`, `queue`, `ageing`, `host`, `fleet`,
`selection`, `outlook`, `residency`, `swaps`, `reservation`, `preemption`, `allotment`; all pure and synchronous), the
shell that carries out its effects (`dispatch`, `warmup`, `announce`), the book of backends and where it comes from
(`backends`), the byte pump between clients and Ollama (`proxy`), health probes, the catalogue of models and the status
document.

Who may call me: any client over HTTP. In Python only `router.client`; other packages import no other module of mine.

What I never do: look into a payload further than the model's name, decode or re-serialise what a model answers, decide
anything about a task, or keep state that must survive a restart anywhere but in the status of a GpuBackend.

My root is `__main__.py`: it reads `settings.Settings` once and runs what `wiring` makes of them.
"""
