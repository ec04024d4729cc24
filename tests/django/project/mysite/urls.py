"""The pages of the project: the admin, and one that takes orders."""

from django.contrib import admin
from django.urls import path
from shop.views import order

urlpatterns = [path("admin/", admin.site.urls), path("order/<customer>", order)]
