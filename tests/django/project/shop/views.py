"""The one page of the shop, which enqueues a task in the transaction that stores an order."""

import os

from django.db import transaction
from django.http import HttpResponse

from shop.models import Order
from shop.tasks import invoice


def order(request, customer):
    with transaction.atomic():
        invoice.enqueue(Order.objects.create(customer=customer).pk)
        if "declined" in request.GET:
            raise ValueError("the card is declined")
    return HttpResponse(str(os.getpid()))
