# The lists of a tenant admin, and the showcase of one tenant, in the order of start.

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

import core.indexes


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("pin_calendar", "0001_initial")]

    operations = [
        AddIndexConcurrently(
            model_name="availabilityslot",
            index=core.indexes.Index(
                models.F("tenant_id"), models.F("start_at"), models.F("id"), name="ix_availability_slots_tenant_start_at"
            ),
        ),
        AddIndexConcurrently(
            model_name="calendarevent",
            index=core.indexes.Index(
                models.F("tenant_id"), models.F("start_at"), models.F("id"), name="ix_calendar_events_tenant_start_at"
            ),
        ),
    ]
