"""The loop, or one turn of it, over a job of the tests."""

from prometheus_client import CollectorRegistry

from tests.workers.fakes import FakeJob, FakeTime
from workers import loop
from workers.loop import Pace
from workers.reporting import Reporter, Turn
from workers.stopping import Stop

MINUTELY = Pace(interval=60, batch_size=10, max_duration=30)


def run(job: FakeJob, *, time: FakeTime, pace: Pace = MINUTELY) -> CollectorRegistry:
    """The loop until that clock stops it; back-off without chance."""
    registry = CollectorRegistry()
    loop.run(
        job,
        pace=pace,
        stop=time.stop,
        reporter=Reporter(job, registry=registry),
        monotonic=time.monotonic,
        jitter=lambda least, most: most,
    )
    return registry


def turn(job: FakeJob, *, pace: Pace = MINUTELY, stop: Stop | None = None) -> tuple[Turn, CollectorRegistry]:
    """One cycle, reported."""
    registry = CollectorRegistry()
    stop = stop or FakeTime(until=1e9).stop
    return loop.turn(job, pace=pace, stop=stop, reporter=Reporter(job, registry=registry)), registry
