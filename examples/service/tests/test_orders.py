"""Orders and their invoices, on a real database and a real node."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from quartzpy import JobKey, Scheduler
from shop.api import a_session, app, scheduler
from shop.models import DailyReport, Invoice, Order, engine
from shop.worker import main


@pytest.fixture
def node() -> Iterator[Scheduler]:
    scheduler = main()
    scheduler.start()
    yield scheduler
    scheduler.shutdown()


def test_an_order_gets_its_invoice(node: Scheduler) -> None:
    order = TestClient(app).post("/orders", json={"customer": "Ada", "cents": 1250}).json()
    assert node.wait_until_recorded(1, timedelta(seconds=30))
    with Session(engine) as session:
        assert session.get_one(Invoice, order["id"]).text == "Ada, please pay 12.50 EUR"


def test_an_order_that_is_rolled_back_schedules_no_invoice() -> None:
    def rolled_back() -> Iterator[Session]:
        with Session(engine) as session:
            yield session
            assert session.scalars(select(Order)).all(), "the order was there inside the transaction"
            session.rollback()

    app.dependency_overrides[a_session] = rolled_back
    try:
        TestClient(app).post("/orders", json={"customer": "Ada", "cents": 1250})
    finally:
        app.dependency_overrides.clear()
    assert not list(scheduler.jobs())


def test_the_report_counts_the_orders(node: Scheduler) -> None:
    client = TestClient(app)
    for cents in (100, 250):
        client.post("/orders", json={"customer": "Ada", "cents": cents})
    node.trigger_job(JobKey("nightly-report", "reports"))
    assert node.wait_until_recorded(3, timedelta(seconds=30))
    with Session(engine) as session:
        [report] = session.scalars(select(DailyReport))
        assert (report.orders, report.cents) == (2, 350)
