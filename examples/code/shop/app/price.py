"""Amounts of money, in cents."""


def rounded(amount: float) -> int:
    """The amount as it is charged: half a cent counts as one."""
    return int(amount + 0.5)


def with_tax(amount: float, rate: float) -> int:
    """The amount with its tax."""
    return rounded(amount * (1 + rate))
