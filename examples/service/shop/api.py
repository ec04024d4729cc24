"""The web service. It schedules jobs and runs none: that is what the nodes are for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI
from pydantic import BaseModel
from sqlalchemy.orm import Session

from quartzpy import SimpleTrigger
from shop.jobs import send_invoice
from shop.models import Order, engine
from shop.scheduling import new_scheduler

scheduler = new_scheduler()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    scheduler.shutdown()


app = FastAPI(lifespan=lifespan)


class NewOrder(BaseModel):
    """The body of a request."""

    customer: str
    cents: int


def a_session() -> Iterator[Session]:
    """One transaction for each request: committed if the request succeeds, rolled back if it raises."""
    with Session(engine) as session, session.begin():
        yield session


@app.post("/orders", status_code=201)
def place_order(new: NewOrder, session: Annotated[Session, Depends(a_session, scope="function")]) -> dict[str, int]:
    """Store the order and schedule its invoice: both are committed, or neither is."""
    order = Order(customer=new.customer, cents=new.cents)
    session.add(order)
    session.flush()
    invoice = send_invoice.detail(f"invoice-{order.id}", "invoices", args=[order.id])
    scheduler.using(session).schedule_job(invoice, SimpleTrigger())
    return {"id": order.id}
