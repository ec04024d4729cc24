"""The table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Creates it."""

    initial = True
    operations = [  # noqa: RUF012
        migrations.CreateModel(
            "Order",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("customer", models.CharField(max_length=100)),
                ("invoiced", models.BooleanField(default=False)),
            ],
        )
    ]
