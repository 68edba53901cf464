"""Below the floor nothing is left to publish: it follows what is published, and never passes what may still commit."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from outbox.floor import Floor, Horizon


@dataclass
class Watch:
    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds


def settled(*, max_id: int) -> Floor:
    """A floor whose horizon, up to this id, has been reached."""
    floor = Floor()
    floor.aim_for(Horizon(max_id=max_id, next_xid=10))
    floor.settle(xmin=10)
    return floor


def test_at_first_every_row_is_looked_at_and_nothing_is_awaited() -> None:
    floor = Floor()

    assert (floor.id, floor.is_waiting, floor.held_seconds) == (0, False, 0.0)
    floor.follow(lowest_unpublished_id=None)
    assert floor.id == 0


@pytest.mark.parametrize(("xmin", "is_waiting", "floor_id"), [(9, True, 0), (10, False, 50), (11, False, 50)])
def test_the_floor_rises_when_the_last_transaction_that_could_commit_a_lower_id_has_ended(
    xmin: int, is_waiting: bool, floor_id: int
) -> None:
    floor = Floor()
    floor.aim_for(Horizon(max_id=50, next_xid=10))

    floor.settle(xmin)
    floor.follow(lowest_unpublished_id=None)

    assert (floor.is_waiting, floor.id) == (is_waiting, floor_id)


@pytest.mark.parametrize(("lowest", "floor_id"), [(None, 50), (51, 50), (50, 49), (7, 6), (900, 50)])
def test_the_floor_stays_below_what_is_not_published(lowest: int | None, floor_id: int) -> None:
    floor = settled(max_id=50)

    floor.follow(lowest)

    assert floor.id == floor_id


def test_the_floor_comes_down_again_to_what_a_read_finds() -> None:
    floor = settled(max_id=50)
    floor.follow(None)

    floor.follow(31)

    assert floor.id == 30


def test_a_horizon_is_awaited_to_its_end_and_the_newest_one_after_it() -> None:
    floor = Floor()
    for max_id, next_xid in ((50, 10), (60, 20), (70, 30)):
        floor.aim_for(Horizon(max_id=max_id, next_xid=next_xid))

    seen = []
    for xmin in (10, 29, 30):
        floor.settle(xmin)
        floor.follow(None)
        seen.append((floor.id, floor.is_waiting))

    assert seen == [(50, True), (50, True), (70, False)]


def test_one_transaction_that_ends_can_settle_both_horizons() -> None:
    floor = Floor()
    floor.aim_for(Horizon(max_id=50, next_xid=10))
    floor.aim_for(Horizon(max_id=60, next_xid=20))

    floor.settle(20)
    floor.follow(None)

    assert (floor.id, floor.is_waiting) == (60, False)


def test_a_horizon_behind_one_that_was_reached_does_not_lower_the_floor() -> None:
    floor = settled(max_id=50)
    floor.aim_for(Horizon(max_id=40, next_xid=11))
    floor.settle(11)

    floor.follow(None)

    assert floor.id == 50


def test_how_long_it_is_held_counts_from_when_each_horizon_began_to_be_awaited() -> None:
    watch = Watch()
    floor = Floor(monotonic=watch)
    floor.aim_for(Horizon(max_id=50, next_xid=10))
    floor.aim_for(Horizon(max_id=60, next_xid=20))
    steps: list[Callable[[], None]] = [lambda: floor.settle(9), lambda: floor.settle(10), lambda: floor.settle(20)]

    held = []
    for step in steps:
        watch.seconds += 5
        step()
        held.append(floor.held_seconds)
        watch.seconds += 1

    assert held == [5.0, 0.0, 0.0]


def test_a_shard_that_was_gained_is_looked_at_from_its_first_row_once() -> None:
    floor = settled(max_id=50)
    floor.follow(None)

    floor.reset()
    assert floor.id == 0

    floor.follow(None)
    assert floor.id == 50
