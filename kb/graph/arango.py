"""placeholder"""


class Store:
    def __init__(self, *a: str) -> None: ...
