"""Benchmarks of sources against real servers: mailboxes beside other programs, and a soak of all of them."""
