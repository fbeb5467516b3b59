"""What a user's text orders, and whether that covers an effect without a person's consent.

Without I/O, and without a model.
"""
