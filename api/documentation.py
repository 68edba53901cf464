"""`/schema` and `/docs`: open to anyone, like the code they are made from; the interface's files are our own."""

from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView


class Document(SpectacularAPIView):
    """The OpenAPI 3.1 document as JSON."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []
    renderer_classes = [OpenApiJsonRenderer]


class SwaggerUi(SpectacularSwaggerView):
    """Swagger UI over the document."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []
