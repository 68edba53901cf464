from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "api"
    verbose_name = "API"

    def ready(self) -> None:
        """Tell the OpenAPI generator how requests are authenticated; it finds extensions by their being imported."""
        from api import schema  # noqa: F401
