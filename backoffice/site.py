"""The admin as operators see it: its name, the order of what it lists, and pages beside those of the models."""

from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, path, reverse

# What is asked for most stands first; an app that is not named here follows.
_ORDER = ("appointments", "pin_calendar", "reminders", "notifications", "outbox", "crm", "workers", "audit", "auth")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the admin that is no model's; it stands in the header for those with the permission, if it has a label.

    `view` checks the permission itself.
    """

    name: str
    route: str
    view: Any
    label: str = ""
    permission: str = ""


class Site(admin.AdminSite):
    site_title = site_header = "PIN Calendar"
    index_title = "Back office"
    site_url = None

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        self._pages: list[Page] = []

    def add_page(self, page: Page) -> None:
        """Serve the page below the admin, to staff only; its route's name is `admin:<name>`."""
        self._pages.append(page)

    def get_urls(self) -> list[URLResolver | URLPattern]:
        own = [path(page.route, self.admin_view(page.view), name=page.name) for page in self._pages]
        return [*own, *super().get_urls()]

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        shown = [page for page in self._pages if page.label and request.user.has_perm(page.permission)]
        links = [{"label": page.label, "url": reverse(f"{self.name}:{page.name}")} for page in shown]
        return super().each_context(request) | {"pages": links}

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        places = {label: place for place, label in enumerate(_ORDER)}
        apps = super().get_app_list(request, app_label)
        return sorted(apps, key=lambda app: places.get(app["app_label"], len(places)))
