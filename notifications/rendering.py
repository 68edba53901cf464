"""From a delivery to a letter: the text of its kind in the recipient's language, as plain text and as HTML.

A template `notifications/<locale>/<kind>.txt` has the subject on its first line and paragraphs below. It is the same
for every channel; `mail.txt` and `mail.html` put it into a mail.
"""

import datetime
from typing import Any

from django.template.loader import render_to_string

from notifications import offers, wording
from notifications.audience import CONTRACTS, Told
from notifications.channels import Letter
from notifications.invitations import invitation
from notifications.models import Delivery, Recipient, Role

_CONTRACTS = {contract.TOPIC: contract for contract in CONTRACTS}


def message_of(delivery: Delivery) -> Told:
    """The message that is told."""
    return _CONTRACTS[delivery.topic].model_validate_json(delivery.payload)  # type: ignore[return-value]


def render(delivery: Delivery, *, to: Recipient, as_of: datetime.datetime) -> Letter:
    """What the recipient gets."""
    message = message_of(delivery)
    locale = to.locale
    text = render_to_string(
        f"notifications/{locale}/{delivery.kind}.txt", _facts(message, role=delivery.role, locale=locale)
    )
    subject, _, body = text.strip().partition("\n")
    context: dict[str, Any] = {
        "locale": locale,
        "subject": subject,
        "paragraphs": [" ".join(paragraph.split()) for paragraph in body.split("\n\n") if paragraph.strip()],
        "link": "",
        "slots": [],
    }
    if offers.are_made(delivery.kind, role=delivery.role):
        context["link"] = offers.showcase_link(message.owner_user_id)
        context["slots"] = [
            wording.when(start_at, zone=zone, locale=locale)
            for start_at, zone in offers.free_slots(message.owner_user_id, as_of=as_of)
        ]
    return Letter(
        delivery_id=delivery.id,
        subject=subject,
        text=render_to_string("notifications/mail.txt", context),
        html=render_to_string("notifications/mail.html", context),
        calendar=invitation(message, role=delivery.role, locale=locale, to_email=to.email),
    )


def _facts(message: Told, *, role: str, locale: str) -> dict[str, Any]:
    """What the templates may speak of: whole instants by their name, for subjects with `_short`."""
    zone = message.time_zone
    facts: dict[str, Any] = {
        "is_owner": role == Role.OWNER,
        "is_client": role == Role.CLIENT,
        "is_previous_owner": role == Role.PREVIOUS_OWNER,
        "status": getattr(message, "status", None),
        "start_short": wording.short(message.start_at, zone=zone, locale=locale),
    }
    for name in ("start_at", "previous_start_at", "pending_expires_at"):
        if (instant := getattr(message, name, None)) is not None:
            facts[name] = wording.when(instant, zone=zone, locale=locale)
    return facts
