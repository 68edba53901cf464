"""`/schema` and `/docs`: open to anyone, like the code they are made from; the interface's files are our own."""

import functools
import threading

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularSwaggerView
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

_making = threading.Lock()


class Document(APIView):
    """The OpenAPI 3.1 document as JSON."""

    authentication_classes = []
    permission_classes = []
    schema = None
    http_method_names = ["get", "head"]

    def get(self, _request: Request) -> HttpResponse:
        with _making:  # the generator cannot be used by two threads at once
            return HttpResponse(_document(), content_type=OpenApiJsonRenderer.media_type)


class SwaggerUi(SpectacularSwaggerView):
    """Swagger UI over the document."""

    authentication_classes = []
    permission_classes = []
    http_method_names = ["get", "head"]

    def handle_exception(self, exc: Exception) -> Response:
        """What goes wrong is a problem in JSON here too, not a page."""
        self.request.accepted_renderer = JSONRenderer()
        self.request.accepted_media_type = JSONRenderer.media_type
        return super().handle_exception(exc)


@functools.cache
def _document() -> bytes:
    """Made once a process: it takes a second, and changes only with the code."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    document: bytes = OpenApiJsonRenderer().render(schema, renderer_context={})
    return document
