"""Where a text is about: exact mentions, words of names, stack traces, tests, order, and texts of any kind."""

from __future__ import annotations

import copyreg
import dataclasses
import io
import json
import pickle
from typing import Any

import pytest

from codegraph import api
from codegraph.answer import where, worker
from codegraph.answer.index import Index
from codegraph.answer.where import Where
from codegraph.extract import packed_facts
from codegraph.parse import extraction
from codegraph.parse.facts import FileFacts
from codegraph.resolve.project import Target
from tests.codegraph import projects

SOURCES = {
    "shop/__init__.py": "",
    "shop/price.py": '''
        """Prices."""

        class PriceList:
            """What things cost."""

            def round_total(self, value: float) -> float:
                """Round a sum to cents."""
                return round(value, 2)

            def discount(self, value: float) -> float:
                """Take a percentage off for loyal customers."""
                return self.round_total(value * 0.9)
        ''',
    "shop/mail.py": '''
        from shop.price import PriceList

        def sendInvoice(address: str) -> None:
            """Send a bill."""
            PriceList().discount(1.0)
            deliver(address)

        def deliver(address: str) -> None:
            """Hand a message to the server; discount, discount, discount, discount."""

        def parseHTTPHeader2(line: str) -> str:
            return line
        ''',
    "shop/stock.py": '''
        def reserve(count: int) -> None:
            """Keep articles for an order."""
            missing(count)

        def missing(count: int) -> None:
            raise LookupError(count, "the shelf is bare")
        ''',
    "shop/stock_pb2.py": '''
        def reserve(count: int) -> None:
            """Keep articles for an order."""
        ''',
    "other/stock.py": '''
        def elsewhere(count: int) -> None:
            """Nothing."""
        ''',
    "tests/test_stock.py": '''
        from shop.stock import reserve

        def test_reserve_keeps_articles_for_an_order() -> None:
            """Keep articles for an order."""
            reserve(1)
        ''',
}


@pytest.fixture(scope="module")
def index() -> Index:
    return projects.index(SOURCES)


@pytest.fixture(scope="module")
def ranks(index: Index) -> Where:
    return Where(index)


def first(ranks: Where, text: str) -> tuple[str, Target]:
    found = ranks.rank(text, 10)
    return found.files[0][0], found.functions[0][0]


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("parseHTTPHeader2", ["parse", "http", "header"]),
        ("round_total", ["round", "total"]),
        ("XMLReader", ["xml", "reader"]),
        ("utf8Length", ["utf", "length"]),
        ("of the", []),
        ("在庫数", ["在庫", "庫数"]),
    ],
)
def test_names_are_split_into_their_words(name: str, terms: list[str]) -> None:
    assert where.split(name) == [term for one in terms for term in where.split(one)]
    assert len(where.split(name)) == len(terms)


def test_words_find_the_declaration_and_its_file(ranks: Where) -> None:
    assert first(ranks, "http header cannot be parsed") == ("shop/mail.py", Target("shop/mail.py", "parseHTTPHeader2"))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("The discount is wrong, see `PriceList.round_total`", Target("shop/price.py", "PriceList.round_total")),
        ("discounts: shop.price.PriceList.round_total fails", Target("shop/price.py", "PriceList.round_total")),
        ("The discount is wrong in round_total", Target("shop/price.py", "PriceList.round_total")),
        ("The discount is wrong below `@PriceList.round_total`", Target("shop/price.py", "PriceList.round_total")),
        ("The discount comes late, sendInvoice() waits", Target("shop/mail.py", "sendInvoice")),
        ("Keep articles for an order: self.discount(3)", Target("shop/price.py", "PriceList.discount")),
    ],
)  # fmt: skip
def test_a_name_in_the_text_counts_more_than_its_words(ranks: Where, text: str, target: Target) -> None:
    assert first(ranks, text)[1] == target


@pytest.mark.parametrize(
    "path", ["shop/price.py", "./shop/price.py:7", "/srv/app/shop/price.py", "price.py", "b/shop/price.py"]
)
def test_a_path_in_the_text_is_the_first_file(ranks: Where, path: str) -> None:
    assert first(ranks, f"Keep articles for an order, as in {path}.")[0] == "shop/price.py"


def test_a_file_of_a_library_with_the_name_of_one_here_is_not_meant(ranks: Where) -> None:
    named, words = "/usr/lib/python3/mail.py: price lists", "usr lib python3 mail py: price lists"
    assert ranks.rank(named, 10) == ranks.rank(words, 10)
    assert ranks.rank(named.replace("/usr/lib/python3", "shop"), 10) != ranks.rank(named, 10)


def test_a_stack_trace_leads_to_the_function_of_its_line(index: Index, ranks: Where) -> None:
    line = index.symbols[Target("shop/stock.py", "missing")].line + 1
    text = f"""The discount is lost

    Traceback (most recent call last):
      File "/srv/app/shop/stock.py", line {line}, in missing
    LookupError: 3
    """
    assert first(ranks, text) == ("shop/stock.py", Target("shop/stock.py", "missing"))


def test_a_place_with_a_line_leads_to_the_function(index: Index, ranks: Where) -> None:
    line = index.symbols[Target("shop/mail.py", "deliver")].line
    assert first(ranks, f"at shop/mail.py:{line}:5 articles are lost")[1] == Target("shop/mail.py", "deliver")


def test_tests_come_later_unless_the_text_is_about_them(ranks: Where) -> None:
    said = "Keep articles for an order"
    assert first(ranks, said)[0] == "shop/stock.py"
    assert first(ranks, f"{said}: the test is flaky")[0] == "tests/test_stock.py"


def test_generated_files_come_later(ranks: Where) -> None:
    paths = [path for path, _ in ranks.rank("Reserve articles for an order", 10).files]
    assert paths.index("shop/stock.py") < paths.index("shop/stock_pb2.py")


def test_what_is_called_by_a_match_gains_a_little(ranks: Where) -> None:
    found = {target.qname: score for target, score in ranks.rank("loyal customers", 10).functions}
    assert found["PriceList.discount"] > found["PriceList.round_total"] > 0


def test_words_that_only_a_body_has_find_the_function_and_its_file(ranks: Where) -> None:
    assert first(ranks, "an empty shelf") == ("shop/stock.py", Target("shop/stock.py", "missing"))


class Earlier(pickle.Pickler):
    """As a version packed facts that had no words of bodies, and that said whether declarations were repaired."""

    def reducer_override(self, one: object) -> Any:
        if not isinstance(one, FileFacts):
            return NotImplemented
        state = [getattr(one, field.name) for field in dataclasses.fields(one) if field.name != "words"]
        state.insert(-1, False)
        return copyreg.__newobj__, (FileFacts,), state  # type: ignore[attr-defined]


def test_facts_of_an_earlier_version_are_ranked_without_words_of_bodies(index: Index) -> None:
    packed = []
    for file in index.project.files.values():
        stream = io.BytesIO()
        Earlier(stream, pickle.HIGHEST_PROTOCOL).dump((file,))
        packed.append(stream.getvalue())
    ranks = Where(Index(packed_facts.read(packed)[0], "main", "shop"))
    assert ranks.rank("an empty shelf", 10) == where.Ranking((), ())
    assert first(ranks, "http header cannot be parsed")[0] == "shop/mail.py"


@pytest.mark.parametrize(
    "foreign",
    [
        b"ckb.code.another\nFileFacts\n.",
        b"ccodegraph.parse.facts\nNoSuchFacts\n.",
        b"cos\nsystem\n.",
        b"\x80\x05K",
        b"J",
    ],
)
def test_facts_of_a_version_that_is_not_known_are_unreadable(index: Index, foreign: bytes) -> None:
    packed = [packed_facts.pack(file) for file in index.project.files.values()]
    with pytest.raises(packed_facts.UnreadableError) as caught:
        packed_facts.read([*packed, packed[0] + foreign])
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "it comes from a worker"


def test_what_is_too_deep_to_be_kept_takes_its_words_along() -> None:
    deep = "".join(f"{' ' * depth}def f{depth}():\n" for depth in range(80)) + " " * 80 + "innermost()\n"
    packed = packed_facts.pack(extraction.extract("a.py", (deep + "outside()\n").encode(), "python"))
    [file] = packed_facts.read([packed])[0].files.values()
    assert (len(file.symbols), len(file.words), file.words[63], file.words[-1]) == (64, 65, "def f63", "outside")


def test_the_same_text_gives_the_same_order(index: Index) -> None:
    backwards = projects.index(dict(reversed(SOURCES.items())))
    text = "Keep articles of a price list for an order, discount"
    assert Where(index).rank(text, 50) == Where(index).rank(text, 50) == Where(backwards).rank(text, 50)


def test_the_limit_counts_for_files_and_for_functions(ranks: Where) -> None:
    found = ranks.rank("discount order articles price stock mail", 2)
    assert (len(found.files), len(found.functions)) == (2, 2)


@pytest.mark.parametrize("text", ["", " \n ", "the of and", "注文の在庫がありません", "Заказ пропал", "????", "\0\x1b"])
def test_a_text_without_a_known_word_finds_nothing(ranks: Where, text: str) -> None:
    assert ranks.rank(text, 10) == where.Ranking((), ())


@pytest.mark.parametrize(
    "text",
    [
        "a" * 20_000,
        "a." * 10_000,
        "_" * 20_000,
        "a_" * 10_000,
        "aB" * 10_000,
        "/" * 20_000,
        "`" * 20_000,
        'File "' * 3_000,
        ("a" * 399 + " ") * 50,
        "".join(f"word{number} " for number in range(2_000)),
        "存" * 20_000,
    ],
)
def test_long_texts_of_any_kind_are_read(ranks: Where, text: str) -> None:
    assert len(ranks.rank(text[:20_000], 10).functions) <= 10


def test_a_project_without_files_has_no_answer() -> None:
    assert Where(projects.index({})).rank("discount", 10) == where.Ranking((), ())


def test_a_question_is_answered_by_the_worker(index: Index) -> None:
    packed = [packed_facts.pack(file) for file in index.project.files.values()]
    asked = json.dumps({"scope": {"clientId": "acme"}, "text": "`PriceList.discount` is wrong", "limit": 3})
    known = json.dumps({"repository": "acme/shop", "branch": "main", "commit": "1", "current": True})
    what = ("one", "main", "shop")
    assert worker.answer("absent", "main", "shop", None, "where", asked, known) is None
    for given in ((packed, b"", ()), None):
        answer = worker.answer(*what, given, "where", asked, known)
        assert answer is not None
        reply = api.WhereReply.model_validate_json(answer[0])
        assert (reply.files[0].path, reply.functions[0].place.qualified_name) == (
            "shop/price.py",
            "shop.price.PriceList.discount",
        )
        assert len(reply.functions) == 3
