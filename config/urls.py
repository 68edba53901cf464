"""Routes of the web process."""

from django.contrib import admin
from django.urls import include, path, re_path

from api.documentation import Document, SwaggerUi
from api.problems import no_such_route

urlpatterns = [
    path("admin/", admin.site.urls),
    path(
        "api/v1/",
        include(
            [
                path("", include("pin_calendar.urls")),
                path("", include("appointments.urls")),
                path("schema", Document.as_view(), name="schema"),
                path("docs", SwaggerUi.as_view(url_name="schema")),
            ]
        ),
    ),
    re_path("^api/", no_such_route),
]
