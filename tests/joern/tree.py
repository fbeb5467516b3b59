"""A small tree in languages that Joern reads (and one that it does not), and what a real run of it exported.

`export.json` was written by the image `joern` for these files; `test_image` makes it again and compares.
"""

from __future__ import annotations

from pathlib import Path

from codegraph import api

FILES = {
    "main.kt": """\
fun main() {}
""",
    "native/box.cpp": """\
#include <vector>

namespace shop {

class Base {
public:
    virtual int size() const { return 0; }
};

class Box : public Base {
public:
    explicit Box(int width) : width_(width) {}
    int size() const override { return width_ * 2; }
    int with(const Base &other) const;

private:
    int width_;
    std::vector<Base> parts_;
};

int Box::with(const Base &other) const
{
    return size() + other.size();
}

}
""",
    "native/check.c": """\
#include <stdlib.h>
#include "shape.h"

int checked(int side)
{
    if (side < 0)
        abort();
    return side;
}

int main(void)
{
    struct shape one = {{0, 0}, 3};
    return shape_area(&one);
}
""",
    "native/shape.c": """\
#include "shape.h"

static int squared(int side)
{
    return side * side;
}

int
shape_area(const struct shape *one)
{
    return squared(checked(one->side));
}
""",
    "native/shape.h": """\
#ifndef SHAPE_H
#define SHAPE_H

struct point {
    int x;
    int y;
};

struct shape {
    struct point origin;
    int side;
};

int shape_area(const struct shape *one);
int checked(int side);

#endif
""",
    "pkg/__init__.py": "",
    "pkg/shape.py": """\
\"\"\"Shapes.\"\"\"


class Shape:
    \"\"\"A thing with an area.\"\"\"

    def area(self) -> float:
        return 0.0


class Square(Shape):
    def __init__(self, side: float) -> None:
        self.side = side

    def area(self) -> float:
        return squared(self.side)

    def beside(self, other: Shape) -> float:
        return self.area() + other.area()


def squared(side: float) -> float:
    return side * side
""",
    "pkg/shop.py": """\
from pkg.shape import Shape, Square


class Order:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def price(self) -> float:
        return self.shape.area() * 2


def order(side: float) -> Order:
    return Order(Square(side))
""",
    "src/main/java/shop/Money.java": """\
package shop;

record Money(double amount, String currency) {
    Money doubled() {
        return new Money(amount * 2, currency);
    }
}

final class Sides {
    private Sides() {}

    static double squared(double side) {
        check(side);
        return side * side;
    }

    static void check(double side) {
        if (side < 0) {
            throw new IllegalArgumentException("negative");
        }
    }
}
""",
    "src/main/java/shop/Shape.java": """\
package shop;

/** A thing with an area. */
public abstract class Shape {
    protected final Money price;

    protected Shape(Money price) {
        this.price = price;
    }

    public abstract double area();

    public double total() {
        return area() * price.amount();
    }
}
""",
    "src/main/java/shop/Square.java": """\
package shop;

import java.util.ArrayList;
import java.util.List;

public class Square extends Shape implements Comparable<Square> {
    private final double side;

    public Square(double side, Money price) {
        super(price);
        this.side = side;
    }

    @Override
    public double area() {
        return Sides.squared(side);
    }

    @Override
    public int compareTo(Square other) {
        return Double.compare(area(), other.area());
    }

    public static List<Square> row(int count, Money price) {
        List<Square> found = new ArrayList<>();
        for (int at = 1; at <= count; at++) {
            found.add(new Square(at, price));
        }
        found.forEach(one -> Sides.check(one.area()));
        return found;
    }
}
""",
}
RECORDED = Path(__file__).with_name("export.json")
"""By a real run of the image."""


def export() -> api.CpgExport:
    """What Joern exported."""
    return api.CpgExport.model_validate_json(RECORDED.read_bytes())
