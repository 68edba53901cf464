"""What an operator may do with a record by hand: confirmed on a page of its own, permitted, recorded.

The change itself is a use case's; it also writes the audit line. Here it is asked for, and noted in the admin's log.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.db import OperationalError
from django.http import HttpRequest

from backoffice import operators
from core import logs
from core.actors import Actor
from core.correlation import correlated
from core.errors import Inconsistent, Refused, VersionConflict

log = logs.get(__name__)


class Confirmation(forms.Form):
    """The confirmation page's form; `seen` is the version of the record that the operator saw there."""

    seen = forms.CharField(
        max_length=100,
        widget=forms.HiddenInput,
        error_messages={"required": "This came without the version that was seen. Open the record's page again."},
    )


class WithReason(Confirmation):
    reason = forms.CharField(
        max_length=500,
        required=False,
        strip=True,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Read by the people concerned.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A confirmed intervention: by whom, when, on which version, and what else the form asked for."""

    actor: Actor
    by: str
    as_of: datetime.datetime
    seen: str
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def seen_version(self) -> int:
        """`seen` of a record whose versions are numbers. Raises VersionConflict when it is none."""
        try:
            return int(self.seen)
        except ValueError:
            raise VersionConflict("the version that was seen is no number") from None


def _version(record: Any) -> str:
    return str(record.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """One button on a record's page.

    `carry_out` returns a sentence, without personal data, of what was done; it raises Refused, or Inconsistent, when
    nothing was. `is_offered` only decides whether the button is there: the rules are the use case's.
    """

    name: str
    label: str
    consequence: str
    permission: str
    carry_out: Callable[[Any, Order], str]
    is_offered: Callable[[Any, datetime.datetime], bool]
    version_of: Callable[[Any], str] = _version
    form: type[Confirmation] = Confirmation
    is_grave: bool = False


def carry_out(
    intervention: Intervention, record: Any, order: Order, *, request: HttpRequest, admin: "ModelAdmin[Any]"
) -> bool:
    """Do it, tell the operator what came of it, and record it; False when nothing was done."""
    subject = {
        "model": admin.opts.label,
        "record_id": str(record.pk),
        "by": order.by,
        "intervention": intervention.name,
    }
    with correlated() as correlation:
        try:
            sentence = intervention.carry_out(record, order)
        except (Refused, Inconsistent) as error:
            log.warning("intervention refused", **subject, reason=getattr(error, "code", "inconsistent"))
            messages.error(request, f"Nothing was changed: {error}.")
            return False
        except OperationalError as error:
            log.warning("intervention failed", **subject, error=type(error).__name__)
            messages.error(request, "Nothing was changed: the database is busy with these rows or away. Try again.")
            return False
        log.warning("intervention carried out", **subject)
        admin.log_change(request, record, f"{intervention.label}: {sentence} (correlation {correlation})")
    messages.success(request, f"{sentence}.")
    return True


def order_of(request: HttpRequest, form: Confirmation, *, as_of: datetime.datetime) -> Order:
    """What the operator has confirmed."""
    values = {name: value for name, value in form.cleaned_data.items() if name != "seen"}
    return Order(
        actor=operators.actor_of(request.user),
        by=f"admin:{request.user.pk}",
        as_of=as_of,
        seen=form.cleaned_data["seen"],
        values=values,
    )
