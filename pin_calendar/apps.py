from django.apps import AppConfig


class CalendarConfig(AppConfig):
    name = "pin_calendar"
    verbose_name = "Calendar"
