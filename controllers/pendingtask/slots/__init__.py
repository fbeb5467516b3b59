"""GPU slots and places at the qualifier: who holds one, who waits, whose turn it is, and why a task waits.

`scheduler` is the entry; `bookings` counts and plans preemption, `fair_share` orders the waiters, `wait_reasons`
explains, `router_use` asks the router. Nothing here writes to the API.
"""
