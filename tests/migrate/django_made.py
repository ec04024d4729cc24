"""A program that lets the real django-celery-beat make its tables and periodic tasks in a database.

`python -m tests.migrate.django_made URL`
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

from sqlalchemy import make_url

LAST = datetime(2026, 10, 20, 12, 0, 0, tzinfo=UTC)
SOON = datetime(2040, 1, 1, 12, 30, tzinfo=UTC)


def main(url: str) -> None:
    import django
    from django.conf import settings
    from django.core.management import call_command

    parts = make_url(url)
    if parts.get_backend_name() == "sqlite":
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.database}
    else:
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.database,
            "USER": parts.username,
            "PASSWORD": parts.password,
            "HOST": parts.host or parts.query.get("host"),
            "PORT": parts.port or parts.query.get("port"),
        }
    settings.configure(
        DATABASES={"default": database},
        INSTALLED_APPS=["django_celery_beat"],
        USE_TZ=True,
        TIME_ZONE="UTC",
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    )
    django.setup()
    call_command("migrate", verbosity=0)
    from django_celery_beat import models

    nightly = models.CrontabSchedule.objects.create(
        minute="30", hour="2", day_of_week="mon-fri", timezone="Europe/Berlin"
    )
    monthly = models.CrontabSchedule.objects.create(minute="0", hour="*/6", day_of_month="1,15", day_of_week="1-5")
    often = models.IntervalSchedule.objects.create(every=90, period="seconds")
    daily = models.IntervalSchedule.objects.create(every=1, period="days")
    once = models.ClockedSchedule.objects.create(clocked_time=SOON)
    sun = models.SolarSchedule.objects.create(event="sunset", latitude=52.5, longitude=13.4)
    add = models.PeriodicTask.objects.create
    add(
        name="nightly",
        task="shop.report",
        crontab=nightly,
        args='["eu"]',
        kwargs='{"pages": 3}',
        queue="slow",
        priority=7,
        expire_seconds=60,
        headers='{"who": "me"}',
        description="The report",
    )
    add(name="monthly", task="shop.monthly", crontab=monthly, start_time=SOON)
    add(name="often", task="shop.often", interval=often, last_run_at=LAST, total_run_count=17)
    add(name="fresh", task="shop.fresh", interval=daily)
    add(name="disabled", task="shop.disabled", interval=daily, enabled=False, last_run_at=LAST)
    add(name="once", task="shop.once", clocked=once, one_off=True)
    add(name="once nightly", task="shop.once", crontab=nightly, one_off=True, start_time=SOON)
    add(name="was once", task="shop.once", crontab=nightly, one_off=True, total_run_count=1)
    add(name="until", task="shop.until", interval=often, expires=SOON + timedelta(days=1))
    add(name="sunset", task="shop.sunset", solar=sun)
    add(name="broken", task="shop.broken", interval=often, args="[1,")


if __name__ == "__main__":
    main(sys.argv[1])
