"""The shop's jobs. Each commits its rows together with its own success, so nothing is done twice."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from quartzpy import JobExecutionContext, RetryPolicy, job
from shop.models import DailyReport, Invoice, Order


@job(retry=RetryPolicy(attempts=5, delay=timedelta(seconds=10)), requests_recovery=True)
def send_invoice(order_id: int, *, context: JobExecutionContext) -> None:
    """Write the invoice of an order."""
    with context.transaction() as connection, Session(connection) as session:
        order = session.get_one(Order, order_id)
        session.add(Invoice(order_id=order.id, text=f"{order.customer}, please pay {order.cents / 100:.2f} EUR"))
        session.flush()


@job(max_concurrent=1, requests_recovery=True)
def nightly_report(context: JobExecutionContext) -> None:
    """Sum up all orders; the report belongs to the day for which it was scheduled, however late it runs."""
    with context.transaction() as connection, Session(connection) as session:
        count, cents = session.execute(select(func.count(Order.id), func.coalesce(func.sum(Order.cents), 0))).one()
        session.merge(DailyReport(day=context.nominal_fire_time.date(), orders=count, cents=int(cents)))
        session.flush()
