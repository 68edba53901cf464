"""The admin of tables that only use cases write: to look at, with interventions instead of fields to type over."""

import datetime
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.utils import label_for_field, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import DateTimeField, Model, Q, QuerySet, Value
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from backoffice import interventions
from backoffice.interventions import Intervention
from backoffice.paging import BoundedPaginator
from core import clock

if TYPE_CHECKING:  # ModelAdmin is generic for type checkers only
    Base = admin.ModelAdmin[Any]
else:
    Base = admin.ModelAdmin


def _in_css(label: str) -> str:
    """The label as the inside of a string of CSS; what is no letter, digit or blank is escaped."""
    capital = label[:1].upper() + label[1:]
    return "".join(sign if sign.isalnum() or sign == " " else f"\\{ord(sign):x} " for sign in capital)


class ListAdmin(Base):
    """A list whose rows are cards on a phone, each value with its column's name."""

    change_list_template = "backoffice/list.html"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        columns = self.get_list_display(request)
        labels = [
            (getattr(column, "__name__", column), _in_css(str(label_for_field(column, self.model, self))))
            for column in columns
        ]
        context = {"labels": labels, "title": str(self.opts.verbose_name_plural).capitalize()}
        return super().changelist_view(request, context | (extra_context or {}))


class RecordAdmin(ListAdmin):
    """A subclass names its columns, the ids that people may paste into the search, its questions and interventions.

    No COUNT of the whole table, no sorting that an index does not give: `newest_first` is by a key that grows.
    """

    change_form_template = "backoffice/record.html"
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 0
    sortable_by = ()
    actions = None
    newest_first: Sequence[str] = ("-id",)
    ids: tuple[str, ...] = ("id",)
    """The columns that a pasted id is looked for in; each has an index."""
    interventions: Sequence[Intervention] = ()

    search_help_text = "An id, whole: of the record, of a person, …"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        seen_at = Value(clock.now(), output_field=DateTimeField())
        rows: QuerySet[Any] = super().get_queryset(request).annotate(seen_at=seen_at)
        return rows.order_by(*self.newest_first)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return (("Record", {"fields": self.get_fields(request, obj)}),)

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        return self.ids

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """The rows that the pasted id names."""
        return (queryset.filter(self.named_by(search_term.strip())) if search_term else queryset), False

    def named_by(self, term: str) -> Q:
        """The condition of being named by what was pasted."""
        try:
            id_ = UUID(term)
        except ValueError:
            return Q(pk__in=[])
        return reduce(or_, (Q(**{column: id_}) for column in self.ids), Q(pk__in=[]))

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_intervene"
        view = self.admin_site.admin_view(self.intervention_view)
        return [path("<path:object_id>/do/<slug:name>/", view, name=name), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        page = super().changelist_view(request, extra_context)
        if isinstance(page, TemplateResponse) and (changes := (page.context_data or {}).get("cl")):
            self.complete(list(changes.result_list))
        return page

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        record = super().get_object(request, object_id, from_field)
        if record is not None:
            self.complete([record])
        return record

    def complete(self, records: Sequence[Any]) -> None:
        """Set on the records what must be read for those that are shown, but not for all that a question finds."""

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        record = self.get_object(request, unquote(object_id))
        context: dict[str, Any] = {}
        if record is not None:
            if not self.has_view_permission(request, record):
                raise PermissionDenied
            as_of = clock.now()
            context = {"title": self.title_of(record), "subtitle": None, "heading": self.heading(record, as_of=as_of)}
            context["interventions"] = [
                {"intervention": offered, "url": self._intervention_url(record, offered)}
                for offered in self.offered(request, record, as_of=as_of)
            ]
            context |= self.panels(request, record, as_of=as_of)
        return super().change_view(request, object_id, form_url, context | (extra_context or {}))

    def title_of(self, record: Any) -> str:
        """The heading of the record's page."""
        return str(self.opts.verbose_name).capitalize()

    def heading(self, record: Any, *, as_of: datetime.datetime) -> Sequence[Any]:
        """What is to be seen at once, below the title."""
        return ()

    def panels(self, request: HttpRequest, record: Any, *, as_of: datetime.datetime) -> dict[str, Any]:
        """Further context of the record's page, for subclasses with a template of their own."""
        return {}

    def offered(self, request: HttpRequest, record: Any, *, as_of: datetime.datetime) -> list[Intervention]:
        """The interventions that this operator may ask for in the record's present state."""
        return [
            intervention
            for intervention in self.interventions
            if request.user.has_perm(intervention.permission) and intervention.is_offered(record, as_of)
        ]

    def intervention_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """The confirmation page, and on POST the intervention itself."""
        intervention = next((known for known in self.interventions if known.name == name), None)
        record = self.get_object(request, unquote(object_id))
        if intervention is None or record is None:
            raise Http404
        if not (request.user.has_perm(intervention.permission) and self.has_view_permission(request, record)):
            raise PermissionDenied
        as_of = clock.now()
        answers = request.POST if request.method == "POST" else None
        form = intervention.form(answers, initial={"seen": intervention.version_of(record)})
        if request.method == "POST" and form.is_valid():
            order = interventions.order_of(request, form, as_of=as_of)
            interventions.carry_out(intervention, record, order, request=request, admin=self)
            return HttpResponseRedirect(self._url(record))
        if request.method != "POST" and not intervention.is_offered(record, as_of):
            messages.warning(request, f"{intervention.label} is not possible any more.")
            return HttpResponseRedirect(self._url(record))
        context = {
            **self.admin_site.each_context(request),
            "title": f"{intervention.label}?",
            "opts": self.opts,
            "record": record,
            "record_url": self._url(record),
            "heading": self.heading(record, as_of=as_of),
            "intervention": intervention,
            "form": form,
        }
        return TemplateResponse(request, "backoffice/confirm.html", context)

    def _url(self, record: Model) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[record.pk])

    def _intervention_url(self, record: Model, intervention: Intervention) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_intervene"
        return reverse(name, args=[record.pk, intervention.name])
