"""The delegation graph: a plan of delegations, agents that carry them out with tools, and one answer from what they
hand back. Seed 000 "Multi-Agent Delegation System".
"""
