"""Jobs of the shop that are not tasks."""

from quartzpy import job
from shop.models import Order


@job
def tidy() -> int:
    return Order.objects.count()
