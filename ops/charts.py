"""Charts as SVG, drawn here: they stretch with the page, take its colours, and need no script.

Text stands beside the drawing, in HTML: the drawing is stretched, and letters should not be.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

_HEIGHT = 100.0
_WIDTH = 0.8  # of a place; what is left parts the bars
_LEAST = 2.0  # so that one of a thousand is seen


@dataclass(frozen=True, slots=True)
class Bar:
    """A place on the time axis; `failed` stands on top of `done`."""

    done: float
    failed: float
    title: str


def bars(places: Sequence[Bar], *, label: str) -> SafeString:
    """Bars in the order of time; each tells its numbers on hovering, `label` says what it is to who can't see it."""
    top = max((bar.done + bar.failed for bar in places), default=0) or 1
    drawn = format_html_join(
        "",
        '<g><title>{}</title><rect class="place" x="{}" y="0" width="1" height="100"/>{}{}</g>',
        (
            (
                bar.title,
                place,
                _rect("done", place, bar.done, 0, top),
                _rect("failed", place, bar.failed, bar.done, top),
            )
            for place, bar in enumerate(places)
        ),
    )
    return format_html(
        '<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {} 100" preserveAspectRatio="none">{}</svg>',
        label,
        max(len(places), 1),
        drawn,
    )


def _rect(kind: str, place: int, value: float, below: float, top: float) -> SafeString | str:
    if not value:
        return ""
    height = max(value / top * _HEIGHT, _LEAST)
    y = max(_HEIGHT - below / top * _HEIGHT - height, 0.0)
    return format_html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>',
        kind,
        f"{place + (1 - _WIDTH) / 2:.2f}",
        f"{y:.2f}",
        _WIDTH,
        f"{height:.2f}",
    )
