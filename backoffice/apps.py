from django.apps import AppConfig
from django.contrib.admin import apps as admin


class BackofficeConfig(AppConfig):
    name = "backoffice"
    verbose_name = "Back office"
    default = True


class SiteConfig(admin.AdminConfig):
    """Django's admin with our site as the default one."""

    default = False
    default_site = "backoffice.site.Site"
