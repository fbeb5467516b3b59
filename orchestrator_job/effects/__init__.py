"""What a run does outside, and what it looks up: tools, permits, the ledger of effects, the journal of a loop.

`tools` has a module for each thing that tools work on, `permits` decides whether the user's own text orders an effect.
Code decides about an effect, never a model. I know neither answers nor agents; I import `model` and `store`.
"""
