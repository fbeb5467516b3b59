"""Tests of the router: real router processes before simulators and before raw sockets that misbehave on purpose."""
