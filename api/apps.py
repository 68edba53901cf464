from django.apps import AppConfig
from django.urls import register_converter


class ApiConfig(AppConfig):
    name = "api"
    verbose_name = "API"

    def ready(self) -> None:
        """Make `<id:…>` known to paths, and to the OpenAPI generator its extensions, by their being imported."""
        from api import paths, schema  # noqa: F401

        register_converter(paths.Id, "id")
