"""The least that a request which inserts one row can cost with this framework: the measure of our own requests."""

from django.urls import include, path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from api.endpoint import principal_of
from core import clock
from core.ids import new_id
from pin_calendar.models import CalendarEvent


class Fields(serializers.ModelSerializer[CalendarEvent]):
    class Meta:
        model = CalendarEvent
        fields = ("id", "title", "start_at", "end_at", "time_zone", "status", "version")
        read_only_fields = ("id", "status", "version")


class Bare(APIView):
    """Token checked, body checked, one row inserted by the ORM and shown; no throttle, rule, message or log line."""

    throttle_classes: list[type[BaseThrottle]] = []

    def post(self, request: Request) -> Response:
        wanted = Fields(data=request.data)
        wanted.is_valid(raise_exception=True)
        now = clock.now()
        event = CalendarEvent.objects.create(
            tenant_id=new_id(),
            owner_user_id=principal_of(request).user_id,
            origin="Manual",
            created_at=now,
            updated_at=now,
            **wanted.validated_data,
        )
        return Response(Fields(event).data, 201)


urlpatterns = [path("bare", Bare.as_view()), path("", include("config.urls"))]
