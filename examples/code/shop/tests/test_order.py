from app.order import Order


def test_due() -> None:
    assert Order([100.0]).due() == 121
