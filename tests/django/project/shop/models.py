"""What the shop stores."""

from django.db import models


class Order(models.Model):
    """An order, whose invoice a task sends."""

    customer = models.CharField(max_length=100)
    invoiced = models.BooleanField(default=False)
