"""Everything runs for minutes under load while workers are killed and servers restarted; then all is proven."""

import heapq
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from django.db import connection
from rich.markup import escape

from benchmarks.runner import console
from benchmarks.soak import proof
from benchmarks.soak.crew import Crew, at_work
from benchmarks.soak.letterbox import Letterbox
from benchmarks.soak.load import Load
from benchmarks.soak.report import Report
from benchmarks.soak.town import Town
from core import clock
from dev.apache_kafka import ApacheKafka
from dev.postgres import EmbeddedPostgres
from dev.servers import Servers

_FAULT_SECONDS = 2.0
_OUTAGE_SECONDS = 30.0
"""PostgreSQL and the broker take turns, so each has its outage every minute."""
_PAUSE_SECONDS = 12.0
"""Longer than a consumer's session with its group, which is 10 s."""
_POLL_SECONDS = 0.2
_DRAIN_SECONDS = 1_800.0
# Chunks of one item, of a few, of many; each size meets each kind of fault.
_CHUNK_SIZES = (1, 7, 50, 200)

Fault = tuple[str, Callable[[], None]]


def run(servers: Servers, *, minutes: float, workers: int, rate: float, seed: int, command: str) -> Report:
    """On a migrated database and with topics; servers that are not ours are left in peace."""
    console.print(f"seed {seed}, {minutes:g} minutes, {workers} workers of each kind, {_broker(servers)}")
    town = Town(opened_at=clock.now())
    town.introduce()
    with tempfile.TemporaryDirectory(prefix="pin-calendar-soak-") as logs, Letterbox() as letterbox:
        environ = {
            **os.environ,
            "EMAIL_HOST": "127.0.0.1",
            "EMAIL_PORT": str(letterbox.port),
            "EMAIL_TLS": "none",
            "DATABASE_IDLE_IN_TRANSACTION_TIMEOUT_MS": "5000",
        }
        crew = Crew(_commands(workers), environ=environ, logs=Path(logs))
        with at_work(crew):
            chaos = _Chaos(crew, servers, dice=random.Random(seed))
            started = time.monotonic()
            with Load(town, rate=rate, seed=seed, bootstrap=os.environ["KAFKA_BOOTSTRAP_SERVERS"]) as load:
                chaos.rage(seconds=minutes * 60)
            seconds = time.monotonic() - started
            chaos.calm()
            drained = _drain(crew)
            crew.stop_all()
        console.print("  drained; reading everything from the start")
        lines = proof.lines(ledger=load.ledger, crew=crew, mails=letterbox.received)
        figures = proof.figures(ledger=load.ledger, mails=letterbox.received, seconds=seconds)
    for line in lines:
        if line.example:
            console.print(f"[bold red]{line.promise}:[/] {escape(line.example)}")
    return Report(
        part="chaos",
        command=command,
        tables=[
            [("must be 0", "", "of"), *((line.promise, f"{line.broken:,}", f"{line.checked:,}") for line in lines)],
            [("fault survived", "times"), *((kind, f"{times:,}") for kind, times in sorted(chaos.faults.items()))],
            [("load", f"in {seconds:,.0f} s"), *figures, ("drained after", f"{drained:.0f} s")],
        ],
        holds=all(line.holds for line in lines),
        remark=f"Seed {seed}; {workers} of each worker; {_broker(servers)}.",
    )


def _broker(servers: Servers) -> str:
    if isinstance(servers.kafka, ApacheKafka):
        return "Apache Kafka, one node, stopped and killed like the rest"
    return (
        "the broker is not stopped: the embedded one would forget everything" if servers.kafka else "a foreign broker"
    )


def _commands(workers: int) -> dict[str, tuple[str, ...]]:
    commands: dict[str, tuple[str, ...]] = {}
    for n in range(workers):
        size = str(_CHUNK_SIZES[n % len(_CHUNK_SIZES)])
        commands |= {
            f"timeout {n}": ("run_appointment_timeout", "--interval", "2", "--drain", "--chunk-size", size),
            f"dispatcher {n}": ("run_reminder_dispatch", "--interval", "2", "--batch-size", size),
            f"relay {n}": ("run_outbox_relay",),
            f"notifications {n}": ("run_notifications", "--interval", "1"),
            f"crm-sync {n}": ("run_crm_sync", "--interval", "1"),
        }
    return commands


class _Chaos:
    """What is done to workers and servers; `faults` counts it by kind."""

    def __init__(self, crew: Crew, servers: Servers, *, dice: random.Random) -> None:
        self.faults: Counter[str] = Counter()
        self._crew = crew
        self._dice = dice
        self._paused: list[tuple[float, str]] = []
        self._outages = _outages(servers)

    def rage(self, *, seconds: float) -> None:
        started = time.monotonic()
        next_fault, next_outage = started + _FAULT_SECONDS, started + _OUTAGE_SECONDS
        while (instant := time.monotonic()) < started + seconds:
            self._resume_due(instant)
            self._crew.look_after_all()
            if self._outages and instant >= next_outage:
                name, outage = self._outages[0]
                self._outages.append(self._outages.pop(0))
                self._do(name, outage)
                next_outage += _OUTAGE_SECONDS
            if instant >= next_fault:
                self._hurt_somebody(instant)
                next_fault = max(next_fault, instant - _FAULT_SECONDS) + _FAULT_SECONDS
            time.sleep(_POLL_SECONDS)

    def calm(self) -> None:
        """Nobody is paused any more, and everybody is there."""
        self._resume_due(float("inf"))
        self._crew.look_after_all()

    def _hurt_somebody(self, instant: float) -> None:
        paused = {name for _, name in self._paused}
        name = self._dice.choice([name for name in self._crew.names if name not in paused])
        kind = name.split()[0]
        match self._dice.choices(["kill -9", "SIGTERM", "SIGSTOP"], [6, 2, 2]):
            case ["kill -9"]:
                self._do(f"kill -9 of a {kind}", lambda: self._crew.kill(name))
            case ["SIGTERM"]:
                self._do(f"SIGTERM of a {kind}", lambda: self._crew.replace(name))
            case _:
                self._do(f"SIGSTOP of a {kind}, its sessions cut", lambda: self._crew.pause(name))
                heapq.heappush(self._paused, (instant + _PAUSE_SECONDS, name))

    def _resume_due(self, instant: float) -> None:
        while self._paused and self._paused[0][0] <= instant:
            self._crew.resume(heapq.heappop(self._paused)[1])

    def _do(self, kind: str, deed: Callable[[], None]) -> None:
        deed()
        self.faults[kind] += 1


def _outages(servers: Servers) -> list[Fault]:
    """In turn. The embedded broker forgets everything when it stops, so only Apache Kafka is stopped."""
    postgres, kafka = servers.postgres, servers.kafka
    of_postgres: list[Fault] = []
    if postgres:
        of_postgres = [
            ("restart of PostgreSQL", lambda: _after(postgres, postgres.stop)),
            ("crash of PostgreSQL", lambda: _after(postgres, postgres.kill)),
        ]
    if not isinstance(kafka, ApacheKafka):
        return of_postgres
    of_kafka: list[Fault] = [
        ("restart of the broker", lambda: _after(kafka, kafka.stop)),
        ("crash of the broker", lambda: _after(kafka, kafka.kill)),
    ]
    return [fault for pair in zip(of_postgres, of_kafka, strict=True) for fault in pair] if postgres else of_kafka


def _after(server: EmbeddedPostgres | ApacheKafka, outage: Callable[[], None]) -> None:
    outage()
    server.start()
    connection.close()  # our own session may have gone with the others


def _drain(crew: Crew) -> float:
    """Wait until nothing is due, in the queue, or unread; the seconds that it took. Late rather than never."""
    started = time.monotonic()
    told = started
    while (left := proof.left_to_do()) and time.monotonic() < started + _DRAIN_SECONDS:
        crew.look_after_all()
        if time.monotonic() > told + 15:
            told = time.monotonic()
            console.print("  still to do: " + ", ".join(f"{count:,} {what}" for what, count in left.items()))
        time.sleep(1)
    return time.monotonic() - started
