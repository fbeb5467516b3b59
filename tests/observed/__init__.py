"""Answers of the kinds that small real models gave, in files, each read by the shape that it was asked for.

Each is used as far as it is usable, and what is wrong with it is counted.
"""
