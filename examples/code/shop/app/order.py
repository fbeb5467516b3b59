"""What a customer ordered."""

from app.price import with_tax


class Order:
    """Lines of an order, each an amount in cents."""

    def __init__(self, lines: list[float]) -> None:
        self.lines = lines

    def due(self) -> int:
        """What is to be paid."""
        return with_tax(sum(self.lines), 0.21)
