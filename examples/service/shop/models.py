"""The shop's own tables, in the same database as the scheduler's."""

from __future__ import annotations

import os
from datetime import date

from sqlalchemy import ForeignKey, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """The base of the shop's tables."""


class Order(Base):
    """A customer's purchase."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    cents: Mapped[int]


class Invoice(Base):
    """An invoice that was written; an order has at most one."""

    __tablename__ = "invoices"

    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    text: Mapped[str]


class DailyReport(Base):
    """The sales of one day."""

    __tablename__ = "daily_reports"

    day: Mapped[date] = mapped_column(primary_key=True)
    orders: Mapped[int]
    cents: Mapped[int]


URL = os.environ["QUARTZPY_URL"]
engine = create_engine(URL)


if __name__ == "__main__":
    Base.metadata.create_all(engine)
