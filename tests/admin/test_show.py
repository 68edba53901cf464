"""How values look."""

import datetime
import io

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command

from backoffice import show
from core.ids import new_id
from ops import groups
from tests.factories import HOUR, NOON


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (599, "9 min 59 s"),
        (601, "10 min"),
        (3_599, "59 min"),
        (3_600, "1 h"),
        (9_000, "2 h 30 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (-120, "2 min"),
    ],
)
def test_a_length_of_time_is_said_in_two_units_at_most(seconds: int, said: str) -> None:
    assert show.distance(datetime.timedelta(seconds=seconds)) == show.distance(float(seconds)) == said


def test_a_moment_tells_how_far_it_is() -> None:
    assert "1 h ago" in show.moment(NOON - HOUR, as_of=NOON)
    assert "in 1 h" in show.moment(NOON + HOUR, as_of=NOON)
    assert ">now<" in show.moment(NOON + datetime.timedelta(milliseconds=999), as_of=NOON)
    assert show.moment(None, as_of=NOON) == show.NOTHING


def test_what_is_shown_is_escaped() -> None:
    assert "<b>" not in show.badge("<b>")
    assert "<b>" not in show.short("<b>" * 9)


def test_an_id_is_shown_by_its_ends() -> None:
    id_ = new_id()

    assert f">{str(id_)[:8]}…{str(id_)[-4:]}<" in show.short(id_)
    assert f'title="{id_}"' in show.short(id_)


@pytest.mark.django_db
def test_the_groups_are_made_once_and_keep_what_else_they_may() -> None:
    first, again = io.StringIO(), io.StringIO()

    call_command("ensure_groups", stdout=first)
    kept = Group.objects.get(name=groups.VIEWERS).permissions.count()
    call_command("ensure_groups", stdout=again)

    assert first.getvalue() == again.getvalue()
    assert first.getvalue().startswith("viewers: ")
    viewers, operators = (
        set(Group.objects.get(name=name).permissions.values_list("codename", flat=True))
        for name in (groups.VIEWERS, groups.OPERATORS)
    )
    assert kept == len(viewers)
    assert all(codename.startswith("view_") for codename in viewers)
    assert "view_recipient" not in viewers
    assert viewers < operators
    assert {"decide_appointment", "skip_outboxmessage", "view_recipient"} <= operators


@pytest.mark.parametrize(
    ("text", "shown"), [('{"a":"ы"}', "{\n  &quot;a&quot;: &quot;ы&quot;\n}"), ("<no json>", "&lt;no json&gt;")]
)
def test_json_is_laid_out_and_anything_else_shown_as_it_is(text: str, shown: str) -> None:
    assert show.document(text) == f'<pre class="payload">{shown}</pre>'
