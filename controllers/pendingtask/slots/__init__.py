"""GPU slots and places at the qualifier: which tasks hold one, which wait, the order of turns, and wait reasons.

`scheduler` is the entry; `bookings` counts and plans preemption, `fair_share` orders the waiters, `wait_reasons`
explains, `router_use` asks the router. Nothing here writes to the API.
"""
