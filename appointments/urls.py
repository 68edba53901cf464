"""Routes of bookings and appointments, below /api/v1/."""

from django.urls import path

from appointments import api

urlpatterns = [
    path("slots/<id:slot_id>/book", api.Booking.as_view()),
    path("appointments", api.Appointments.as_view()),
    path("appointments/<id:appointment_id>", api.OneAppointment.as_view()),
    path("appointments/<id:appointment_id>/confirm", api.Confirmation.as_view()),
    path("appointments/<id:appointment_id>/decline", api.Declining.as_view()),
    path("appointments/<id:appointment_id>/cancel", api.Cancellation.as_view()),
    path("appointments/<id:appointment_id>/complete", api.Completion.as_view()),
    path("appointments/<id:appointment_id>/no-show", api.NoShow.as_view()),
    path("appointments/<id:appointment_id>/reschedule", api.Rescheduling.as_view()),
    path("reassignments", api.Reassignments.as_view()),
    path("feeds", api.Feeds.as_view()),
    path("feeds/revoke", api.FeedRevocation.as_view()),
    path("feeds/<str:token>.ics", api.Feed.as_view(), name="feed"),
]
