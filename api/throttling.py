"""Requests a minute by user and by address, counted in this process; exact limits belong to a gateway."""

import time
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.cache import cache
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from api.authentication import Principal

if TYPE_CHECKING:  # DRF's views read their settings, and with them this module, while they are being imported
    from rest_framework.views import APIView

_WINDOW_SECONDS = 60


class _Throttle(BaseThrottle):
    def limit(self) -> int:
        raise NotImplementedError

    def subject(self, request: Request) -> str | None:
        raise NotImplementedError

    def allow_request(self, request: Request, view: "APIView") -> bool:
        """Count the request; False when the minute's allowance is used up."""
        limit, subject = self.limit(), self.subject(request)
        if not limit or subject is None:
            return True
        key = f"throttle:{subject}:{int(time.monotonic() // _WINDOW_SECONDS)}"
        cache.add(key, 0, timeout=2 * _WINDOW_SECONDS)
        return cache.incr(key) <= limit

    def wait(self) -> float:
        """Seconds until the next minute begins."""
        return _WINDOW_SECONDS - time.monotonic() % _WINDOW_SECONDS


class ByUser(_Throttle):
    """API_REQUESTS_PER_MINUTE_AND_USER."""

    def limit(self) -> int:
        return int(settings.ENV.api_requests_per_minute_and_user)

    def subject(self, request: Request) -> str | None:
        return f"user:{request.user.user_id}" if isinstance(request.user, Principal) else None


class ByAddress(_Throttle):
    """API_REQUESTS_PER_MINUTE_AND_ADDRESS."""

    def limit(self) -> int:
        return int(settings.ENV.api_requests_per_minute_and_address)

    def subject(self, request: Request) -> str | None:
        return f"address:{self.get_ident(request)}"
