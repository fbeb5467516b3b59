"""GPU slots and places at the qualifier: which tasks hold one, which wait, the order of turns, and wait reasons.

`scheduler` is the entry and admits tasks; `ledger` knows what is taken, `user_hold` what users hold back, `user_line`
and `fair_share` the order of the waiters; `bookings` counts and plans preemption, `wait_reasons` explains, `router_use`
asks the router. Nothing here writes to the API.
"""
