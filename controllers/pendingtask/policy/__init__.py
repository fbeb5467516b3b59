"""The policies, one module per phase: what to do about a task in that phase, given the observed state. Pure.

`interruption` holds the policies that several phases share: suspension, preemption, backoff, a lost node or backend.
`decide` lists the policies of each phase in order.
"""
