"""The settings of the project."""

import os

import django
from sqlalchemy import make_url

_url = make_url(os.environ["DATABASE"])
SECRET_KEY = "tests"
DEBUG = True
ALLOWED_HOSTS = ["*"]
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
ROOT_URLCONF = "mysite.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "quartzpy.ext.django",
    *(["django_tasks"] if django.VERSION < (6,) else []),
    *(["django_celery_beat"] if "WITH_BEAT" in os.environ else []),
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.database,
        "USER": _url.username,
        "PASSWORD": _url.password,
        "HOST": _url.host or _url.query.get("host"),
        "PORT": _url.port or _url.query.get("port"),
    },
    "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
}
TASKS = {
    "default": {
        "BACKEND": "quartzpy.ext.django.QuartzBackend",
        "QUEUES": ["default", "mails"],
        "OPTIONS": {"capture_logs": "INFO"},
    }
}
QUARTZPY = {"NAME": "shop", "NODE_IN_RUNSERVER": "WITH_NODE" in os.environ}
