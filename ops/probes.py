"""What machines ask a web process at its own address: whether it lives, whether it is ready, its metrics.

Answered before any other middleware, for a kubelet and a scraper name the host by its address and speak plain HTTP:
ALLOWED_HOSTS and the redirect to https would refuse them. Whatever routes requests from outside leaves these paths out.
"""

from collections.abc import Callable
from http import HTTPStatus

from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse

from ops.views import metrics
from workers.health import BoundedCheck, database_check


class Probes:
    """Middleware: /livez, /readyz and /metrics; everything else goes on."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        self._database = BoundedCheck(database_check(connection.get_connection_params()))
        self._answers: dict[str, Callable[[HttpRequest], HttpResponse]] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": metrics,
        }

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self._answers.get(request.path_info, self._get_response)(request)

    def _livez(self, _request: HttpRequest) -> HttpResponse:
        """200: a thread of this process was free to say so. The database is not asked, its outage kills nobody."""
        return JsonResponse({"status": "ok"})

    def _readyz(self, _request: HttpRequest) -> HttpResponse:
        """200 when the database answers within the check's bound, else 503."""
        state = self._database.state()
        status = HTTPStatus.OK if state == "ok" else HTTPStatus.SERVICE_UNAVAILABLE
        return JsonResponse({"checks": {"database": state}}, status=status)
