"""The load of a run: threads in which people act and the CRM tells, whatever is done to the servers meanwhile."""

import datetime
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import connection, connections

from benchmarks.soak.acts import ACTS, Receipt
from benchmarks.soak.town import TENANT, Town
from contracts.base import Contract
from contracts.crm import AssigneeChanged, BookingDeadlineChanged, DeadlineState
from core import clock, database
from core.correlation import correlated
from core.errors import Refused
from core.ids import new_id
from tests.kafka_writer import Writer

_THREADS = 4
_CRM_SECONDS = 0.4
_CRM_REASSIGNS_EVERY = 10
_REST_SECONDS = 0.2


@dataclass
class Ledger:
    """What came of the acts, for all threads."""

    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    cut_off: int = 0
    """Acts that a server which was away broke off; whether they were committed nobody knows."""
    failures: list[str] = field(default_factory=list)
    receipts: dict[tuple[str, UUID], int] = field(default_factory=dict)
    crm_ids: set[UUID] = field(default_factory=set)
    """Messages of the CRM that the broker has acknowledged."""
    revisions: dict[UUID, int] = field(default_factory=dict)
    """The newest acknowledged revision of each of the CRM's bookings."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, act: str, receipts: Sequence[Receipt]) -> None:
        with self._lock:
            self.done[act] += 1
            for receipt in receipts:
                place = receipt.table, receipt.id
                self.receipts[place] = max(receipt.version, self.receipts.get(place, 0))

    def note_refusal(self, code: str) -> None:
        with self._lock:
            self.refused[code] += 1

    def note_cut(self) -> None:
        with self._lock:
            self.cut_off += 1

    def note_failure(self, error: BaseException, *, act: str) -> None:
        with self._lock:
            self.failures.append(f"{act}: {type(error).__name__}: {error}")


class Load:
    """Runs as long as the block lasts, at about `rate` acts a second; what came of it is in `ledger`."""

    def __init__(self, town: Town, *, rate: float, seed: int, bootstrap: str) -> None:
        self.ledger = Ledger()
        self._town = town
        self._bootstrap = bootstrap
        self._pause = _THREADS / rate
        self._is_over = threading.Event()
        acting = [self._thread(self._act, seed=seed + n) for n in range(_THREADS)]
        self._threads = [*acting, self._thread(self._tell_of_bookings, seed=seed + _THREADS)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _thread(self, work: Callable[[random.Random], None], *, seed: int) -> threading.Thread:
        return threading.Thread(target=self._run, args=(work, random.Random(seed)), daemon=True)

    def _run(self, work: Callable[[random.Random], None], dice: random.Random) -> None:
        try:
            work(dice)
        except Exception as error:  # the run goes on with the others, and fails in the end
            self.ledger.note_failure(error, act=work.__name__)
        finally:
            connections.close_all()

    def _act(self, dice: random.Random) -> None:
        acts, weights = list(ACTS), list(ACTS.values())
        due = time.monotonic()
        while not self._is_over.is_set():
            [act] = dice.choices(acts, weights)
            try:
                with correlated():
                    receipts = act(self._town, dice, clock.now())
            except Refused as refusal:
                self.ledger.note_refusal(refusal.code)
            except DatabaseError as error:
                # What was in the way is tried again by the caller, as at the API.
                if database.is_infrastructure_error(error) or database.is_in_the_way(error):
                    self.ledger.note_cut()
                else:
                    self.ledger.note_failure(error, act=act.__name__)
                connection.close()
                self._is_over.wait(_REST_SECONDS)
            else:
                if receipts is not None:
                    self.ledger.note(act.__name__, receipts)
            # What an outage has delayed is not made up for: the pace is that of a steady stream.
            due = max(due + self._pause, time.monotonic() - self._pause)
            self._is_over.wait(max(0.0, due - time.monotonic()))

    def _tell_of_bookings(self, dice: random.Random) -> None:
        """Deadlines in any order and repeated, and now and then another assignee for all that an owner has open."""
        writer = Writer(self._bootstrap)
        told: list[tuple[Contract, UUID]] = []
        revision = 0
        while not self._is_over.wait(_CRM_SECONDS):
            if told and dice.random() < 0.1:
                message, message_id = dice.choice(told[-50:])
            elif dice.randrange(_CRM_REASSIGNS_EVERY) == 0:
                revision += 1
                message, message_id = _a_new_assignee(self._town, dice, revision=revision), new_id()
            else:
                message, message_id = self._a_deadline(dice), new_id()
            told.append((message, message_id))
            while not self._is_told(writer, message, message_id):
                pass
            self.ledger.crm_ids.add(message_id)
            if isinstance(message, BookingDeadlineChanged):
                known = self.ledger.revisions.get(message.booking_id, 0)
                self.ledger.revisions[message.booking_id] = max(known, message.revision)

    def _is_told(self, writer: Writer, message: Contract, message_id: UUID) -> bool:
        try:
            writer.tell(message, message_ids=[message_id], partition=None)
        except AssertionError:  # the broker is away; a second record with the same id does no harm
            self.ledger.note_cut()
            return False
        return True

    def _a_deadline(self, dice: random.Random) -> BookingDeadlineChanged:
        bookings = self.ledger.revisions
        booking_id = dice.choice(list(bookings)[-50:]) if bookings and dice.random() < 0.6 else new_id()
        known = bookings.get(booking_id, 0)
        return BookingDeadlineChanged(
            tenant_id=TENANT,
            booking_id=booking_id,
            owner_user_id=dice.choice(self._town.owners),
            title="Payment",
            deadline_at=clock.now() + datetime.timedelta(seconds=dice.uniform(3_600, 3_630)),
            time_zone="Europe/Moscow",
            state=dice.choice([*DeadlineState, DeadlineState.OPEN, DeadlineState.MOVED]),
            revision=max(1, known + dice.choice([-1, 0, 1, 1, 1, 2])),
        )


def _a_new_assignee(town: Town, dice: random.Random, *, revision: int) -> AssigneeChanged:
    before, after = dice.sample(town.owners, 2)
    return AssigneeChanged(tenant_id=TENANT, from_owner_user_id=before, to_owner_user_id=after, revision=revision)
