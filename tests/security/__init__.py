"""An attacker for each row of SECURITY.md, with real processes and what he really has. Those that need a cluster are in
tests/e2e/test_attackers.py and test_network.py."""
