"""The metrics that the web process exports."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from django_prometheus.exports import ExportToDjangoView
from prometheus_client import generate_latest

from core import clock
from ops.collector import DatabaseCollector


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The metrics of the web processes, and what PostgreSQL tells of the workers."""
    page: HttpResponse = ExportToDjangoView(request)
    page.content += generate_latest(DatabaseCollector(clock.now()))
    return page
