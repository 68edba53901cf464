"""Calendar feeds get audit lines too; rows are checked by the next migration, without a lock."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0003_validate_aggregates'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            # The wider constraint comes back below, in the same transaction.
            database_operations=[
                migrations.RunSQL([
                    '-- squawk-ignore ban-drop-constraint\n'
                    'ALTER TABLE audit_log DROP CONSTRAINT ck_audit_log_aggregate'
                ]),
            ],
            state_operations=[
                migrations.RemoveConstraint(model_name='auditline', name='ck_audit_log_aggregate'),
            ],
        ),
        migrations.AlterField(
            model_name='auditline',
            name='aggregate',
            field=models.CharField(choices=[('Appointment', 'Appointment'), ('Slot', 'Slot'), ('Event', 'Event'), ('Message', 'Message'), ('Conflict', 'Conflict'), ('Delivery', 'Delivery'), ('Feed', 'Feed')], max_length=16),
        ),
        AddConstraintNotValid(
            model_name='auditline',
            constraint=models.CheckConstraint(condition=models.Q(('aggregate__in', ['Appointment', 'Slot', 'Event', 'Message', 'Conflict', 'Delivery', 'Feed'])), name='ck_audit_log_aggregate'),
        ),
    ]
