"""The byte pump: takes a client's request, gets it a slot, sends it to a backend and relays the answer untouched.

I own: both ends of the wire (`incoming`, `connections` and `server` for clients, `connection` and `pool` for backends),
the way of one request (`forward`; `relay` for one attempt at one backend; `blame` for what failed; `parts` is what they
stand on), what may pass in its head (`hygiene`), the peek at its body (`body`), error answers (`refusal`), and the
watch over exchanges that stand still (`stall`). ARCHITECTURE.md draws the states of a request.

Who may call me: `router.wiring` and `router.lifetime`; `router.health` uses `pool`.

What I never do: decode, buffer or re-serialise an answer, or choose a backend (that is `router.scheduler`).
"""
