"""There is one representation, JSON, so an Accept header can neither choose nor fail."""

from collections.abc import Iterable

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class AlwaysJson(BaseContentNegotiation):
    """The first renderer, and the parser of the body's media type."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        """None, which answers 415, for another media type than the parser's."""
        media_type = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if media_type == parser.media_type), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)
