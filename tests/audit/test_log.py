"""The audit log: one line a transition, by whoever really acted, under the correlation id in force."""

import pytest
from pytest_django import DjangoAssertNumQueries

from audit import log
from audit.log import Line
from audit.models import Aggregate, AuditLine
from core.actors import Actor
from core.correlation import correlated
from core.ids import new_id
from tests.factories import NOON, TENANT

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("actor", "kind"),
    [
        (Actor.user(new_id()), "User"),
        (Actor.tenant_admin(new_id(), tenant_id=TENANT), "TenantAdmin"),
        (Actor.operator(new_id()), "Operator"),
        (Actor.system(), "System"),
    ],
)
def test_a_line_keeps_who_when_what_from_and_to(actor: Actor, kind: str) -> None:
    subject = new_id()

    with correlated() as correlation:
        log.record([Line(Aggregate.SLOT, subject, TENANT, "book", "Available", "Booked")], actor=actor, as_of=NOON)

    line = AuditLine.objects.get()
    assert (line.aggregate, line.aggregate_id, line.tenant_id) == ("Slot", subject, TENANT)
    assert (line.verb, line.from_status, line.to_status) == ("book", "Available", "Booked")
    assert (line.actor_kind, line.actor_user_id) == (kind, actor.user_id)
    assert (line.correlation_id, line.occurred_at) == (correlation, NOON)


def test_no_lines_are_no_statement(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        log.record([], actor=Actor.system(), as_of=NOON)


def test_many_lines_are_one_statement(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    lines = [Line(Aggregate.EVENT, new_id(), TENANT, "cancel", "Scheduled", "Cancelled") for _ in range(200)]

    with django_assert_num_queries(1):
        log.record(lines, actor=Actor.system(), as_of=NOON)

    assert AuditLine.objects.count() == 200
