"""The showcase reads an index in its order and stops at the end of the page, however many slots there are."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from api.paging import Place
from core import sql
from pin_calendar import showcase
from pin_calendar.models import AvailabilitySlot
from tests.factories import DAY, NOON, TENANT

pytestmark = pytest.mark.django_db
SLOTS = 20_000


@pytest.fixture
def crowd() -> AvailabilitySlot:
    """20,000 slots of 200 owners, a tenth of them past and half of the others taken; one of the free ones."""
    sql.execute(
        """
        INSERT INTO availability_slots (id, tenant_id, owner_user_id, start_at, end_at, time_zone,
               min_lead_time_minutes, auto_confirm, status, version, created_at, updated_at)
        SELECT gen_random_uuid(), %(tenant)s, md5((n %% 200)::text)::uuid, at, at + interval '1 hour', 'Europe/Moscow',
               60, false, CASE WHEN n / 200 %% 2 = 0 THEN 'Available' ELSE 'Booked' END, 1, at, at
        FROM (SELECT n, %(noon)s + (n / 200 - 10) * interval '2 hours' AS at
              FROM generate_series(0, %(last)s) AS n) AS made
        """,
        {"tenant": TENANT, "noon": NOON, "last": SLOTS - 1},
    )
    sql.execute("ANALYZE availability_slots")
    return AvailabilitySlot.objects.filter(status="Available", start_at__gt=NOON + 3 * DAY).earliest("start_at", "id")


def plan_of(**asked: Any) -> tuple[str, int]:
    """The plan of a page, and the rows that it reads at most in one step."""
    with CaptureQueriesContext(connection) as captured:
        found = showcase.bookable(as_of=NOON, limit=50, **asked)
    assert found.items
    [query] = captured
    lines = [line for (line,) in sql.fetch(f"EXPLAIN (ANALYZE, TIMING OFF) {query['sql'].replace('%', '%%')}")]
    read = [float(rows) for line in lines for rows in re.findall(r"actual rows=([\d.]+)", line)]
    skipped = [int(rows) for line in lines for rows in re.findall(r"Rows Removed by Filter: (\d+)", line)]
    return "\n".join(lines), int(max(read)) + sum(skipped)


def test_a_page_walks_the_index_of_free_slots(crowd: AvailabilitySlot) -> None:
    for asked in ({}, {"from_at": crowd.start_at}, {"after": Place(crowd.start_at, crowd.id)}):
        plan, rows = plan_of(**asked)

        assert "using ix_availability_slots_showcase" in plan, plan
        assert "Sort" not in plan, plan
        assert rows <= 51 + 200, plan  # at most the slots that start at one moment are passed over


def test_an_owners_page_walks_the_owners_index(crowd: AvailabilitySlot) -> None:
    plan, rows = plan_of(owner_id=crowd.owner_user_id)

    assert "ix_availability_slots_owner_start_at" in plan, plan
    assert rows <= SLOTS // 20, plan  # an owner has a 200th of them; rows of tests before may still lie there


def test_a_tenants_page_walks_an_index_in_its_order(crowd: AvailabilitySlot) -> None:
    plan, rows = plan_of(tenant_id=crowd.tenant_id)

    assert "Seq Scan" not in plan, plan
    assert rows <= 51 + 400, plan
