"""Tests of the set-up tools: processes, layout, the stand-alone apiserver, data services, sockets, recovery."""
