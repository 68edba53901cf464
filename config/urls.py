"""Routes of the web process."""

from django.contrib import admin
from django.urls import path

from ops import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("metrics", views.metrics, name="metrics"),
]
