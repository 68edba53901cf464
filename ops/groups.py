"""The two groups of the back office: who looks, and who also intervenes."""

from django.contrib.auth.models import Group, Permission

VIEWERS, OPERATORS = "viewers", "operators"

# The apps whose rows are looked at; recipients are personal data and for operators alone.
_APPS = ("appointments", "pin_calendar", "reminders", "outbox", "notifications", "crm", "workers", "audit")
_PERSONAL = "recipient"
_INTERVENTIONS = (
    ("appointments", "decide_appointment"),
    ("appointments", "reassign_appointment"),
    ("appointments", "resolve_reassignmentconflict"),
    ("appointments", "revoke_calendarfeed"),
    ("pin_calendar", "withdraw_availabilityslot"),
    ("pin_calendar", "finish_calendarevent"),
    ("outbox", "retry_outboxmessage"),
    ("outbox", "skip_outboxmessage"),
    ("notifications", "change_delivery"),
    ("notifications", "view_recipient"),
    ("notifications", "add_recipient"),
    ("notifications", "change_recipient"),
)


def ensure() -> dict[str, int]:
    """Both groups with their permissions, and the number of these; what else a group may do stays its own."""
    looking = list(
        Permission.objects.filter(content_type__app_label__in=_APPS, codename__startswith="view_").exclude(
            content_type__model=_PERSONAL
        )
    )
    acting = [
        Permission.objects.get(content_type__app_label=app, codename=codename) for app, codename in _INTERVENTIONS
    ]
    given = {VIEWERS: looking, OPERATORS: [*looking, *acting]}
    for name, permissions in given.items():
        Group.objects.get_or_create(name=name)[0].permissions.add(*permissions)
    return {name: len(permissions) for name, permissions in given.items()}
