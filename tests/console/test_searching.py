"""Where an interrupted search goes on."""

from __future__ import annotations

from penstock.console.searching import NEVER, Place, Places, few_before


def test_a_search_goes_on_from_any_of_the_last_places_that_its_reader_was_told() -> None:
    places, place = Places(), Place("t", {0: (0, 9), 1: (0, NEVER)})
    search = places.begin()
    told = [places.keep(search, place)]
    for offset in (3, 7):
        place.ranges[0] = (offset, 9)
        told.append(places.keep(search, place))
    assert places.keep(search, place) == told[-1]
    found = [places.find(each) for each in told]
    assert [each.ranges[0] for each in found if each] == [(0, 9), (3, 9), (7, 9)]
    assert places.find("made-up.0") is None


def test_what_is_remembered_is_bounded() -> None:
    places = Places()
    searches = [places.begin() for _ in range(300)]
    wide = Place("t", dict.fromkeys(range(10000), (0, 9)))
    told = []
    for offset in range(100):
        wide.ranges[0] = (offset, 200)
        told.append(places.keep(searches[-1], wide))
    assert [places.find(each) is not None for each in told] == [False] * 98 + [True] * 2
    assert len(told[-1]) < 40


def test_a_place_that_was_handed_out_does_not_move() -> None:
    places, place = Places(), Place("t", {0: (0, 9)})
    number = places.keep(places.begin(), place)
    first = places.find(number)
    assert first is not None
    first.ranges[0] = (5, 9)
    assert (places.find(number) or place).ranges[0] == (0, 9)


def test_what_comes_before_is_a_few_records_of_each_partition_and_ends_at_the_first() -> None:
    assert few_before({0: 0, 1: 95, 2: 7}, {0: 100, 1: 100, 2: 7}, 50) == {0: (50, 100), 1: (95, 100)}
    many = dict.fromkeys(range(1_000), 100)
    assert set(few_before({}, many, 50).values()) == {(98, 100)}
