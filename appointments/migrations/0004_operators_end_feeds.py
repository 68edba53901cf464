from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('appointments', '0003_calendar_feeds'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='calendarfeed',
            options={'permissions': [('revoke_calendarfeed', "Can revoke people's calendar feeds")]},
        ),
    ]
