"""Filters that are questions: each narrows the list to the rows that answer it, in the order that fits."""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from core import clock

Rows = QuerySet[Any]


@dataclass(frozen=True, slots=True)
class Question:
    """`narrow` gives the rows of the answer as of an instant, ordered so that an index finds the first of them."""

    slug: str
    text: str
    narrow: Callable[[Rows, datetime.datetime], Rows]


def one_of(*questions: Question) -> type[admin.SimpleListFilter]:
    """A list filter of which one question can be asked at a time, as `?question=<slug>`."""
    by_slug = {question.slug: question for question in questions}

    class Questions(admin.SimpleListFilter):
        title = "question"
        parameter_name = "question"

        def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
            return [(question.slug, question.text) for question in questions]

        def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
            question = by_slug.get(self.value() or "")
            return question.narrow(queryset, clock.now()) if question else queryset

    return Questions
