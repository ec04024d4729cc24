"""The settings of a Django project, which a process can be given only once."""

from __future__ import annotations


def configure() -> None:
    """Configure Django, unless another test of this process has. The test sets the place of the database."""
    import django
    from django.conf import settings

    if settings.configured:
        return
    settings.configure(
        SECRET_KEY="tests",
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        INSTALLED_APPS=[
            *(f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "sessions", "messages")),
            "quartzpy.ext.django",
        ],
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}},
        USE_TZ=True,
    )
    django.setup()


urlpatterns: list[object] = []
