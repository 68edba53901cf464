"""A small believable data set, made by the real use cases: an agency, PIN's consultants, investors and their requests.

Everything is relative to `as_of`; the people have fixed ids, so that a second run finds them and adds nothing.
"""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings

from appointments import booking, decisions
from appointments.matrix import Verb
from appointments.models import Appointment
from core.actors import Actor
from core.correlation import correlated
from core.errors import Refused
from notifications.models import Locale, Recipient
from pin_calendar import publishing
from pin_calendar.models import AvailabilitySlot
from pin_calendar.publishing import Draft

DAY = datetime.timedelta(days=1)
HOUR = datetime.timedelta(hours=1)
MINUTE = datetime.timedelta(minutes=1)

AGENCY = UUID("0d3a0000-0000-7000-8000-0000000000a1")
AGENTS = (UUID("0d3a0000-0000-7000-8000-0000000000b1"), UUID("0d3a0000-0000-7000-8000-0000000000b2"))
CONSULTANTS = (UUID("0d3a0000-0000-7000-8000-0000000000c1"), UUID("0d3a0000-0000-7000-8000-0000000000c2"))
INVESTORS = tuple(UUID(f"0d3a0000-0000-7000-8000-0000000000d{n}") for n in range(1, 6))
# Nobody's: mail to example.com reaches no one.
ADDRESSES = {
    **{user_id: f"agent{n}@example.com" for n, user_id in enumerate(AGENTS, 1)},
    **{user_id: f"consultant{n}@example.com" for n, user_id in enumerate(CONSULTANTS, 1)},
    **{user_id: f"investor{n}@example.com" for n, user_id in enumerate(INVESTORS, 1)},
}
ENGLISH_SPEAKERS = (CONSULTANTS[1], INVESTORS[1], INVESTORS[3])

FIRST_DAY, LAST_DAY = -2, 13
LOCAL_HOURS = (10, 12, 16)
AUTO_CONFIRM_HOUR = 12
PUBLISHED_AGO = 5 * DAY


class NotInProduction(Refused):
    """Invented data has no place among real people's."""

    code = "not_in_production"


@dataclass(frozen=True, slots=True)
class Owner:
    user_id: UUID
    tenant_id: UUID
    time_zone: str

    @property
    def actor(self) -> Actor:
        return Actor.user(self.user_id, tenant_id=self.tenant_id)

    def at(self, day: int, hour: int, *, as_of: datetime.datetime) -> datetime.datetime:
        """That hour of the owner's clock, so many days from today's date there."""
        today = as_of.astimezone(ZoneInfo(self.time_zone)).date()
        local = datetime.datetime.combine(today + day * DAY, datetime.time(hour), ZoneInfo(self.time_zone))
        return local.astimezone(datetime.UTC)


@dataclass(frozen=True, slots=True)
class Story:
    """A request of an investor for the owner's slot of that day and hour, and what followed. Times are ago."""

    investor: UUID
    owner: UUID
    day: int
    hour: int
    booked_ago: datetime.timedelta
    then: tuple[tuple[Verb, datetime.timedelta], ...] = ()


# One story for an investor and an owner at most: by these two a later run knows that it was told.
# fmt: off
STORIES: tuple[Story, ...] = (
    Story(INVESTORS[0], AGENTS[0], -1, 10, 4 * DAY, ((Verb.CONFIRM, 4 * DAY - HOUR), (Verb.COMPLETE, HOUR))),
    Story(INVESTORS[1], AGENTS[1], -1, 10, 4 * DAY, ((Verb.CONFIRM, 3 * DAY + HOUR), (Verb.NO_SHOW, HOUR))),
    Story(INVESTORS[2], AGENTS[0], 3, 16, 2 * HOUR, ((Verb.DECLINE, HOUR),)),
    Story(INVESTORS[0], AGENTS[1], 4, 10, 8 * HOUR, ((Verb.CONFIRM, 6 * HOUR), (Verb.CANCEL, HOUR))),
    Story(INVESTORS[1], AGENTS[0], 3, 10, 5 * HOUR, ((Verb.CONFIRM, 3 * HOUR),)),
    Story(INVESTORS[2], CONSULTANTS[0], 2, AUTO_CONFIRM_HOUR, 3 * HOUR),
    Story(INVESTORS[3], AGENTS[0], 5, 10, 30 * MINUTE),
    Story(INVESTORS[3], CONSULTANTS[1], 6, 16, 10 * MINUTE),
    Story(INVESTORS[4], AGENTS[1], 7, 10, DAY - 2 * MINUTE),  # lapses two minutes from now
)
# fmt: on


@dataclass(frozen=True, slots=True)
class DemoData:
    """What is there now; `is_new` says that this run has added to it."""

    agency_tenant_id: UUID
    agents: tuple[UUID, ...]
    consultants: tuple[UUID, ...]
    investors: tuple[UUID, ...]
    slot_ids: tuple[UUID, ...]
    appointment_ids: tuple[UUID, ...]
    is_new: bool


def owners() -> tuple[Owner, ...]:
    """The agents of the agency and the consultants of PIN."""
    platform = settings.ENV.pin_platform_tenant_id
    return (
        *(Owner(agent, AGENCY, "Europe/Moscow") for agent in AGENTS),
        Owner(CONSULTANTS[0], platform, "Europe/Moscow"),
        Owner(CONSULTANTS[1], platform, "Asia/Yekaterinburg"),
    )


def seed(as_of: datetime.datetime) -> DemoData:
    """The data set, with what was missing of it added. Raises NotInProduction."""
    if settings.ENV.pin_environment == "production":
        raise NotInProduction("demo data is not for production (PIN_ENVIRONMENT)")
    _introduce_people()
    with correlated():
        added = [_publish(owner, as_of=as_of) for owner in owners()]
        added += [_tell(story, as_of=as_of) for story in STORIES]
    user_ids = [owner.user_id for owner in owners()]
    return DemoData(
        agency_tenant_id=AGENCY,
        agents=AGENTS,
        consultants=CONSULTANTS,
        investors=INVESTORS,
        slot_ids=_ids(AvailabilitySlot.objects.filter(owner_user_id__in=user_ids).order_by("start_at", "id")),
        appointment_ids=_ids(Appointment.objects.filter(client_user_id__in=INVESTORS).order_by("id")),
        is_new=any(added),
    )


def _introduce_people() -> None:
    """To notifications; who is there already is left as they are."""
    recipients = [
        Recipient(user_id=user_id, email=email, locale=Locale.EN if user_id in ENGLISH_SPEAKERS else Locale.RU)
        for user_id, email in ADDRESSES.items()
    ]
    Recipient.objects.bulk_create(recipients, ignore_conflicts=True)


def _ids(records: Iterable[AvailabilitySlot | Appointment]) -> tuple[UUID, ...]:
    return tuple(record.id for record in records)


def _publish(owner: Owner, *, as_of: datetime.datetime) -> bool:
    if AvailabilitySlot.objects.filter(owner_user_id=owner.user_id).exists():
        return False
    publishing.publish(
        _drafts(owner, as_of=as_of),
        owner_user_id=owner.user_id,
        tenant_id=owner.tenant_id,
        actor=owner.actor,
        as_of=as_of - PUBLISHED_AGO,
    )
    return True


def _drafts(owner: Owner, *, as_of: datetime.datetime) -> Sequence[Draft]:
    starts = (
        (hour, owner.at(day, hour, as_of=as_of)) for day in range(FIRST_DAY, LAST_DAY + 1) for hour in LOCAL_HOURS
    )
    return [
        Draft(start_at, start_at + HOUR, owner.time_zone, auto_confirm=hour == AUTO_CONFIRM_HOUR)
        for hour, start_at in starts
    ]


def _tell(story: Story, *, as_of: datetime.datetime) -> bool:
    if Appointment.objects.filter(client_user_id=story.investor, owner_user_id=story.owner).exists():
        return False
    [owner] = (owner for owner in owners() if owner.user_id == story.owner)
    slot = AvailabilitySlot.objects.filter(
        owner_user_id=story.owner, start_at=owner.at(story.day, story.hour, as_of=as_of)
    ).first()
    if slot is None:  # an earlier run was broken off on another day
        return False
    investor = Actor.user(story.investor)
    request = booking.book(slot.id, actor=investor, as_of=as_of - story.booked_ago)
    for verb, ago in story.then:
        actor = investor if verb is Verb.CANCEL else owner.actor
        decisions.change(request.id, verb, actor=actor, as_of=as_of - ago)
    return True
