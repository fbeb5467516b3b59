"""What an answer is made of and checked against: question, evidence, quotations, claims.

I know neither effects nor agents; I import `model` and `store`.
"""
