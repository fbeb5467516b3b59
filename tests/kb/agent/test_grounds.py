"""On what turns of a conversation rest: the latest stay for as long as all of that is seen."""

from __future__ import annotations

from dataclasses import replace

from kb.agent import grounds
from kb.agent.tree import Turn


class Talk:
    """A conversation whose last `shown` turns are in each prompt."""

    def __init__(self, shown: int = 5) -> None:
        self.turns: list[Turn] = []
        self.gone: set[str] = set()
        self._shown = shown

    def standing(self) -> list[Turn]:
        asked = grounds.of(self.turns, self.turns)
        return grounds.standing(self.turns, grounds.Grounds(asked.chunks - self.gone, asked.pages - self.gone))

    def say(self, *chunks: str, pages: tuple[str, ...] = ()) -> Turn:
        shown = self.standing()[-self._shown :]
        name = f"t{len(self.turns) + 1}"
        self.turns.append(replace(grounds.added(Turn("q", "a", chunks, pages), self.turns, shown), id=name))
        return self.turns[-1]

    def left(self) -> list[str]:
        return [one.id for one in self.standing()]


def test_the_latest_turns_stay_however_many_there_are() -> None:
    talk = Talk()
    for number in range(100):
        assert len(talk.standing()) == number
        kept = talk.say(*[f"q{number}c{one}" for one in range(85)])
        assert (len(kept.chunks), len(kept.rests_on)) == (85, min(number, 1))
    assert len(grounds.of(talk.turns, talk.turns[-1:]).chunks) == 8500


def test_what_is_found_again_is_kept_once() -> None:
    talk = Talk(shown=1)
    for _ in range(3):
        talk.say("a", "b", "a", pages=("p", "p"))
    assert [(one.chunks, one.pages, one.rests_on) for one in talk.turns] == [
        (("a", "b"), ("p",), ()),
        ((), (), ("t1",)),
        ((), (), ("t2",)),
    ]


def test_a_turn_falls_with_all_that_had_it_in_their_prompts() -> None:
    talk = Talk(shown=2)
    for number in range(1, 7):
        talk.say(f"c{number}", pages=(f"p{number}",))
    for gone in ("c3", "p3"):
        talk.gone = {gone}
        assert talk.left() == ["t1", "t2"]
    # What is said now rests on what is still seen, and does not fall with the others.
    assert talk.say("c7").rests_on == ("t2",)
    talk.say("c8")
    assert talk.left() == ["t1", "t2", "t7", "t8"]
    talk.gone = {"c1"}
    assert talk.left() == []
    talk.say("c9")
    assert talk.left() == ["t9"]
    talk.gone = set()
    assert talk.left() == [f"t{number}" for number in range(1, 10)]


def test_a_turn_names_each_of_its_prompt_that_none_of_the_others_rests_on() -> None:
    apart = [Turn("q", "a", (f"c{number}",), id=f"old{number}") for number in range(3)]
    kept = grounds.added(Turn("q", "a", ("c1", "new")), apart, apart)
    assert (kept.chunks, kept.rests_on) == (("new",), ("old0", "old1", "old2"))


def test_a_turn_that_names_one_that_is_not_known_does_not_stand() -> None:
    turns = [
        Turn("q", "a", id="1"),
        Turn("q", "a", rests_on=("0",), id="2"),
        Turn("q", "a", rests_on=("2",), id="3"),
    ]
    nothing = grounds.Grounds(frozenset(), frozenset())
    assert [one.id for one in grounds.standing(turns, nothing)] == ["1"]
    # In whatever order they come, and if they should name each other.
    assert [one.id for one in grounds.standing(turns[::-1], nothing)] == ["1"]
    circle = [Turn("q", "a", ("c",), rests_on=("2",), id="1"), Turn("q", "a", rests_on=("1",), id="2")]
    assert grounds.standing(circle, nothing) == []
    assert grounds.of(circle, circle[1:]).chunks == {"c"}
