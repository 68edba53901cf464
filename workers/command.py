"""The command of a polling worker: flags in; the loop, one cycle or a preview run; an exit code out."""

import dataclasses
import datetime
import gc
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import takewhile
from typing import Any, ClassVar

import orjson
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from prometheus_client import CollectorRegistry

from core import clock, logs
from workers import flags, health, loop, stopping
from workers.health import Heartbeat
from workers.job import Job, is_infrastructure_error
from workers.loop import Pace
from workers.models import Outcome
from workers.preview import print_rows
from workers.reporting import Reporter, Turn, sentence
from workers.stopping import Interrupted, Stop

log = logs.get(__name__)

_EPILOG = (
    "Exit codes: 0 done, also with failed items and after SIGTERM (within 5 s; a second signal exits at once); "
    "1 with --once or --dry-run: the database or another dependency was away (the loop goes on and backs off); "
    "2 a bad flag or setting. Logs are JSON lines on stderr."
)


class WorkerCommand(BaseCommand):
    """Base of the polling workers' commands: a subclass gives `help`, its job and the pace that its settings name."""

    requires_system_checks = ()  # routes and templates are none of a worker's business
    batch_is: ClassVar[str] = "items a cycle at most"
    """What --batch-size means to this worker."""
    supports_preview: ClassVar[bool] = False
    """True where the job has a `preview`: adds --dry-run and --as-of."""

    def make_job(self, options: Mapping[str, Any]) -> Job[Any]:
        """The job to run, not yet connected to anything; `options` holds what `add_job_arguments` added."""
        raise NotImplementedError

    def default_pace(self) -> Pace:
        """What the settings say; the flags go over it."""
        raise NotImplementedError

    def add_job_arguments(self, parser: CommandParser) -> None:
        """For flags of this worker alone."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, epilog=_EPILOG, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        pace = self.default_pace()
        self._parser = parser
        add = parser.add_argument
        add("--once", action="store_true", help="run a single cycle, print its result as one JSON line on stdout, exit")
        add(
            "--interval",
            type=flags.seconds,
            default=pace.interval,
            metavar="SECONDS",
            help="pause between ticks; a tick missed by a long cycle is skipped (default: %(default)g)",
        )
        add(
            "--batch-size",
            type=flags.batch_size,
            default=pace.batch_size,
            metavar="N",
            help=f"{self.batch_is} (default: %(default)s)",
        )
        add(
            "--max-duration",
            type=flags.seconds,
            default=pace.max_duration,
            metavar="SECONDS",
            help="past it a cycle starts no further item and ends normally (default: %(default)g)",
        )
        add(
            "--drain",
            action="store_true",
            default=pace.drain,
            help="start the next cycle at once after a full batch; with --once: go on until a batch is not full",
        )
        add(
            "--metrics-port",
            type=flags.port,
            default=0,
            metavar="PORT",
            help=f"serve /metrics, /livez and /readyz on {settings.ENV.metrics_host}:PORT (default: 0, off)",
        )
        if self.supports_preview:
            add(
                "--dry-run",
                action="store_true",
                help="print what a cycle would do, as a table or, off a terminal, as JSON lines; change nothing",
            )
            add(
                "--as-of",
                type=flags.instant,
                metavar="INSTANT",
                help="with --dry-run: as of this instant with Z or an offset, such as 2026-03-01T10:00:00Z",
            )
        self.add_job_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        is_preview = options.get("dry_run", False)
        as_of = options.get("as_of")
        if as_of is not None and not is_preview:
            self._parser.error("argument --as-of: goes only together with --dry-run")
        pace = Pace(**{field.name: options[field.name] for field in dataclasses.fields(Pace)})
        heartbeat = Heartbeat()
        stop = Stop(beat=heartbeat.beat)
        until_exit = getattr(self, "_called_from_command_line", False)
        with (
            # Not the `connection` proxy, which is another one in the watchdog's thread.
            stopping.on_signals(stop, connection=connections[DEFAULT_DB_ALIAS], until_exit=until_exit),
            closing(self.make_job(options)) as job,
        ):
            if is_preview:
                self._preview(job, as_of=as_of or clock.now(), limit=pace.batch_size, stop=stop)
                return
            registry = CollectorRegistry()
            port = options["metrics_port"]
            reporter = Reporter(job, registry=registry, is_watched=bool(port))
            with (
                self._serving(job, port=port, registry=registry, heartbeat=heartbeat),
                _few_collections(until_exit=until_exit),
                _planning_once(),
            ):
                if options["once"]:
                    self._once(job, pace=pace, stop=stop, reporter=reporter)
                else:
                    log.info("worker started", job=job.name, **dataclasses.asdict(pace))
                    loop.run(job, pace=pace, stop=stop, reporter=reporter)
                    log.info("worker stopped", job=job.name)

    def _once(self, job: Job[Any], *, pace: Pace, stop: Stop, reporter: Reporter) -> None:
        started = time.monotonic()
        first = done = self._turn(job, pace=pace, stop=stop, reporter=reporter)
        counts = Counter(first.counts)
        while not stop.asked and loop.is_worth_another(done, pace=pace):
            done = self._turn(job, pace=pace, stop=stop, reporter=reporter)
            counts.update(done.counts)
        line = {
            "runId": str(first.run_id),
            "asOf": clock.iso(first.as_of),
            **{logs.camel(name): count for name, count in counts.items()},
            "durationMs": round((time.monotonic() - started) * 1000),
        }
        self.stdout.write(orjson.dumps(line).decode())

    def _turn(self, job: Job[Any], *, pace: Pace, stop: Stop, reporter: Reporter) -> Turn:
        done = loop.turn(job, pace=pace, stop=stop, reporter=reporter)
        if done.outcome is Outcome.FAILED and done.error is not None:
            raise _failure(done.error) from done.error
        return done

    def _preview(self, job: Job[Any], *, as_of: datetime.datetime, limit: int, stop: Stop) -> None:
        try:
            with stopping.interruptible(connection, stop=stop), transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION READ ONLY")
                rows = takewhile(lambda _row: not stop.asked, job.preview(as_of=as_of, limit=limit))
                print_rows(rows, out=self.stdout)
        except Interrupted:
            log.info("preview stopped")
        except Exception as error:
            if not is_infrastructure_error(error):
                raise
            raise _failure(error) from error

    @contextmanager
    def _serving(
        self, job: Job[Any], *, port: int, registry: CollectorRegistry, heartbeat: Heartbeat
    ) -> Iterator[None]:
        if not port:
            yield
            return
        host = settings.ENV.metrics_host
        database = health.database_check(connection.get_connection_params())
        try:
            server = health.listen(
                host=host,
                port=port,
                registry=registry,
                heartbeat=heartbeat,
                liveness_seconds=settings.ENV.liveness_seconds,
                checks={"database": database, **job.readiness_checks()},
            )
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self._parser.error(f"argument --metrics-port: cannot serve on {host}:{port}: {reason}")
        with health.serving(server):
            yield


@contextmanager
def _few_collections(*, until_exit: bool) -> Iterator[None]:
    """What was imported lives as long as the process: no collection needs to look at it again.

    And a chunk is no reason for one: its rows, some ten thousand objects, go as soon as nothing refers to them. With
    `until_exit` it stays so after the block: the last collection of all would delay a stop.
    """
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)
    try:
        yield
    finally:
        if not until_exit:
            gc.unfreeze()
            gc.set_threshold(*thresholds)


@contextmanager
def _planning_once() -> Iterator[None]:
    """Sessions opened in the block plan a prepared statement once, not each time.

    A worker asks the same few questions day and night, each by the index that was made for it, and for one item a
    transaction PostgreSQL would plan longer than it works.
    """

    def plan_once(connection: BaseDatabaseWrapper, **_kwargs: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET plan_cache_mode = force_generic_plan")

    connection_created.connect(plan_once)
    try:
        yield
    finally:
        connection_created.disconnect(plan_once)


def _failure(error: BaseException) -> CommandError:
    what = "A dependency is away" if is_infrastructure_error(error) else "The cycle failed"
    return CommandError(f"{what}: {sentence(error)}", returncode=1)
