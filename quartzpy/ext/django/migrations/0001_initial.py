"""The models of the admin, which have no tables. `quartzpy.ext.django.apps` moves quartzpy's own after each migrate."""

from django.db import migrations, models

from quartzpy.ext.django.models import permissions


class Migration(migrations.Migration):
    """Notes the models in Django's state."""

    initial = True
    operations = [  # noqa: RUF012 - Django's form
        migrations.CreateModel(
            model,
            [("id", models.BigAutoField(primary_key=True, auto_created=True, serialize=False, verbose_name="ID"))],
            options={"managed": False, "default_permissions": ("view",), "permissions": permissions(model.lower())},
        )
        for model in ("Execution", "Incident", "Job", "Trigger")
    ]
