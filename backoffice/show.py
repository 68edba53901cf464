"""How values look: statuses as badges, ids short, instants with their distance, records as links."""

import contextlib
import datetime
import json
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

NOTHING = "–"


class Tone(StrEnum):
    """What a status means to an operator, as a colour."""

    GOOD = "good"
    WAITING = "waiting"
    BAD = "bad"
    OVER = "over"


_TONES: dict[str, Tone] = {
    **dict.fromkeys(("Confirmed", "Completed", "Sent", "sent", "Succeeded", "Published", "Resolved"), Tone.GOOD),
    **dict.fromkeys(("Pending", "pending", "Booked", "Scheduled", "Waiting", "Open"), Tone.WAITING),
    **dict.fromkeys(("Failed", "Parked", "parked", "Blocking", "no_channel"), Tone.BAD),
}


def badge(word: str) -> SafeString:
    """The word, coloured by what it means."""
    return format_html('<span class="badge {}">{}</span>', _TONES.get(word, Tone.OVER), word or NOTHING)


def short(id_: UUID | str | None) -> SafeString | str:
    """An id by its two ends; the whole of it on hovering."""
    if id_ is None:
        return NOTHING
    text = str(id_)
    return format_html('<span class="id" title="{}">{}…{}</span>', text, text[:8], text[-4:])


def link(model: str, key: Any, text: Any = "") -> SafeString | str:
    """A link to the record's page, `model` being `app_label.name`; the short id is its text unless another is given."""
    if key is None:
        return NOTHING
    url = reverse(f"admin:{model.lower().replace('.', '_')}_change", args=[key])
    return format_html('<a href="{}">{}</a>', url, text or short(key))


def document(text: str) -> SafeString:
    """JSON, laid out; any other text as it is."""
    with contextlib.suppress(ValueError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return format_html('<pre class="payload">{}</pre>', text)


def distance(span: datetime.timedelta | float) -> str:
    """A length of time in its two largest units, as people say it."""
    seconds = int(span.total_seconds() if isinstance(span, datetime.timedelta) else span)
    seconds = abs(seconds)
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    for place, (size, name) in enumerate(units):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            smaller = units[place + 1 : place + 2]
            if smaller and whole < 10 and (part := rest // smaller[0][0]):
                return f"{whole} {name} {part} {smaller[0][1]}"
            return f"{whole} {name}"
    return "0 s"


def moment(instant: datetime.datetime | None, *, as_of: datetime.datetime) -> SafeString | str:
    """The instant in UTC and how far from `as_of` it is."""
    if instant is None:
        return NOTHING
    away = distance(instant - as_of)
    aside = f"in {away}" if instant > as_of else f"{away} ago"
    return format_html(
        '<time datetime="{}">{}</time> <span class="away">{}</span>',
        instant.isoformat(),
        instant.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "now" if away == distance(0) else aside,
    )
