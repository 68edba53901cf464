from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "ops"
    verbose_name = "Operations"
