"""The people of the back office."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest

from backoffice import operators
from backoffice.records import ListAdmin

if TYPE_CHECKING:  # UserAdmin is generic for type checkers only
    Base = UserAdmin[User]
else:
    Base = UserAdmin

admin.site.unregister(User)


@admin.register(User)
class OperatorAdmin(ListAdmin, Base):
    """Users with the id that the audit log knows them by; deactivated, never deleted, so that it stays readable."""

    list_display = ("username", "is_active", "is_staff", "is_superuser", "last_login")
    readonly_fields = ("audit_id", "last_login", "date_joined")
    show_facets = admin.ShowFacets.NEVER
    search_help_text = "A name, or an id from the audit log"
    fieldsets = (
        (None, {"fields": ("username", "password", "audit_id")}),
        ("Personal info", {"fields": ("first_name", "last_name", "email")}),
        ("Permissions", {"fields": ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")}),
        ("Important dates", {"fields": ("last_login", "date_joined")}),
    )

    @admin.display(description="id in the audit log")
    def audit_id(self, user: User) -> UUID:
        return operators.audit_id(user.pk)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        try:
            id_ = UUID(search_term.strip())
        except ValueError:
            return super().get_search_results(request, queryset, search_term)
        return queryset.filter(pk=operators.key_of(id_)), False
