"""Routes of slots and events, below /api/v1/."""

from django.urls import path

from pin_calendar import api

urlpatterns = [
    path("slots", api.Slots.as_view()),
    path("slots/bulk", api.WeeklySlots.as_view()),
    path("slots/mine", api.OwnSlots.as_view()),
    path("slots/<id:slot_id>", api.Slot.as_view()),
    path("slots/<id:slot_id>/withdraw", api.SlotWithdrawal.as_view()),
    path("events", api.Events.as_view()),
    path("events/<id:event_id>", api.Event.as_view()),
    path("events/<id:event_id>/complete", api.EventCompletion.as_view()),
    path("events/<id:event_id>/cancel", api.EventCancellation.as_view()),
]
