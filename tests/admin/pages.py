"""Asking for pages of the back office as a browser would."""

import html
import re
from typing import Any

from django.db.models import Model
from django.test import Client
from django.urls import reverse


def list_url(model: type[Model], query: str = "") -> str:
    return reverse(f"admin:{model._meta.label_lower.replace('.', '_')}_changelist") + query


def record_url(record: Model) -> str:
    return reverse(f"admin:{record._meta.label_lower.replace('.', '_')}_change", args=[record.pk])


def intervention_url(record: Model, name: str) -> str:
    return reverse(f"admin:{record._meta.label_lower.replace('.', '_')}_intervene", args=[record.pk, name])


def text_of(response: Any) -> str:
    """The visible words of the page's content, blanks made one."""
    body = response.content.decode()
    body = body[body.index('<main id="content-start"') :]
    body = re.sub(r"(?s)<(script|style|title)\b.*?</\1>|<[^>]+>", " ", body)
    return html.unescape(re.sub(r"\s+", " ", body)).strip()


def buttons(client: Client, record: Model) -> list[str]:
    """The interventions that the record's page offers."""
    page = client.get(record_url(record)).content.decode()
    return re.findall(r'class="intervention[^"]*">([^<]+)</a>', page)


def confirm(client: Client, record: Model, name: str, **answers: str) -> str:
    """Ask for the intervention, confirm what the page shows, and return what the operator is told."""
    url = intervention_url(record, name)
    page = client.get(url)
    assert page.status_code == 200, page.status_code
    return submit(client, url, seen=page.context["form"].initial["seen"], **answers)


def submit(client: Client, url: str, **answers: str) -> str:
    """Send the confirmation; what the page then says, one sentence a line."""
    answer = client.post(url, answers, follow=True)
    assert answer.status_code == 200, answer.status_code
    return "\n".join(str(message) for message in answer.context["messages"])
