"""The tasks of the shop: some as Django's own decorator makes them, some with options of quartzpy's."""

import logging

import django

from quartzpy import RetryPolicy
from quartzpy.ext.django import task as quartzpy_task
from shop.models import Order

if django.VERSION >= (6,):
    from django.tasks import task
else:
    from django_tasks import task


@task
def add(a, b):
    logging.getLogger("shop").warning("adding")
    return a + b


@task(queue_name="mails")
def invoice(order):
    Order.objects.filter(pk=order).update(invoiced=True)


@task(takes_context=True)
def number(context, word="id"):
    return [context.task_result.id, context.attempt, word]


@task
async def count(more):
    return more + await Order.objects.acount()


@task
def strange():
    return object()


@quartzpy_task(takes_context=True, retry=RetryPolicy(attempts=2, delay="0.1s"))
def unlucky(context):
    if context.attempt == 1:
        raise ValueError("bad luck")
    return context.attempt


@quartzpy_task(schedule=["0 2 * * *", "0 3 * * SUN"], max_concurrent=1)
def nightly(region="eu"):
    return region
