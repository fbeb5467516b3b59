"""Agents: the registry, the loop of one agent, its prompt, its report, and the order of delegations.

Seed 000 "Multi-Agent Delegation System". I know no plan: what I carry out is handed to me.
"""
