"""The sweep of `make soak` finds what is half done, and leaves out nothing that writes."""

from collections.abc import Iterator

import pytest

from benchmarks.failpoints import census, scenes, state
from benchmarks.failpoints.paths import LEFT_OUT, PATHS, Path
from benchmarks.failpoints.scenes import ADMIN, Facts
from benchmarks.failpoints.sweep import Stage, stage, sweep
from core import clock
from outbox import topics
from pin_calendar import publishing
from tests.factories import DAY
from workers.topics import ensure

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]


@pytest.fixture
def on() -> Iterator[Stage]:
    with stage() as made:
        yield made


def two_slots() -> Facts:
    return {"first": scenes.a_slot()["slot"], "second": scenes.a_slot(starts_in=9 * DAY)["slot"]}


def withdraw_both(facts: Facts) -> None:
    """In two transactions, as nothing should."""
    for slot_id in facts.values():
        publishing.withdraw(slot_id, actor=ADMIN, as_of=clock.now())


def test_an_act_in_two_transactions_is_found_half_done(on: Stage) -> None:
    result = sweep(Path(two_slots, withdraw_both), on=on)

    assert result.states == 3
    assert "3 states instead of 2: something was half done" in result.faults


def test_a_use_case_that_dies_at_each_of_its_statements_is_done_or_not_done(on: Stage) -> None:
    result = sweep(PATHS["withdraw a slot"], on=on)

    assert (result.faults, result.states) == ([], 2)
    assert result.deaths > 4


@pytest.mark.parametrize(("name", "states"), [("crm-sync, a deadline", 4), ("crm-sync, an assignee", 2)])
def test_a_consumer_that_dies_at_each_of_its_statements_is_followed_by_one_that_does_the_rest(
    on: Stage, name: str, states: int
) -> None:
    result = sweep(PATHS[name], on=on)

    assert (result.faults, result.states) == ([], states)
    assert result.deaths > 20


def test_a_path_of_the_sweep_leads_to_everything_in_the_code_that_writes(on: Stage) -> None:
    """Who adds something that writes adds a path on which it dies, or says in LEFT_OUT why it need not."""
    ensure(topics.names())
    reached = set()
    for path in PATHS.values():
        state.clear()
        reached |= on.play_and_look(path, path.scene())

    assert {str(writer) for writer in census.writers() - reached} == LEFT_OUT.keys()
