from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0004_feeds'),
    ]

    operations = [
        ValidateConstraint(model_name='auditline', name='ck_audit_log_aggregate'),
    ]
