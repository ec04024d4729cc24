from __future__ import annotations

import dataclasses
import enum
import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from quartzpy.errors import InvalidJobDataError
from quartzpy.job_data import JobDataMap, decode, encode

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "r"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    at: datetime


class Model(BaseModel):
    price: Decimal
    points: list[int] = []


class Parametrized(BaseModel, Generic[T]):
    value: T


NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)

VALUES = [
    {"text": "ü", "n": 1, "f": 1.5, "t": True, "none": None, "list": [1, [2]], "map": {"a": {"b": 1}}},
    {"at": NOON, "day": date(2026, 1, 1), "time": time(1, 2), "span": timedelta(days=-1, microseconds=3)},
    {"price": Decimal("1.50"), "id": UUID(int=7), "raw": b"\0\xff", "pair": (1, ("a",))},
    {"large": [1e22, 1.5e300, -1e16], "huge": 2**8191, "small": 5e-324},
    {"colour": Colour.RED, "point": Point(3, NOON), "looks": {"$datetime": "not one"}},
    {"path": Path("/srv/in.csv"), "model": Model(price=Decimal("1.50"), points=[1])},
]


@pytest.mark.parametrize("data", VALUES)
def test_data_comes_back_as_it_was(data: dict[str, Any]) -> None:
    assert decode(encode(data)) == data


def test_a_model_that_could_not_be_read_back_is_refused() -> None:
    with pytest.raises(InvalidJobDataError, match="is not a class of a module, so it cannot be read back"):
        encode({"a": Parametrized[int](value=1)})


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["a", "$b", "c"]), json_values, max_size=3))
def test_any_json_comes_back_as_it_was(data: dict[str, Any]) -> None:
    text = encode(data)
    assert decode(text) == data
    if text is not None:
        json.loads(text)


def test_an_instant_is_kept_whatever_its_zone() -> None:
    there = datetime(2026, 1, 1, 5, tzinfo=timezone(timedelta(hours=5)))
    assert decode(encode({"at": there}))["at"] == there


def _circle() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    return circle


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": object()}, "data['a']: object cannot be stored"),
        ({"a": {"b": [0, lambda: 1]}}, "data['a']['b'][1]: function cannot be stored"),
        ({"a": {1, 2}}, "data['a']: set cannot be stored"),
        ({"a": float("nan")}, "data['a']: nan is not a JSON number"),
        ({"a": datetime(2026, 1, 1)}, "data['a']: a datetime needs a time zone"),
        ({1: 2}, "keys must be str (got 1)"),
        ({"a": {2: 3}}, "data['a']: keys must be str (got 2)"),
        ({"a": "x\0y"}, "data['a']: the NUL character"),
        ({"a": "\ud800"}, "not valid Unicode text"),
        (_circle(), "nested deeper than 32, or refers to itself"),
        ("text", "data: must be a mapping (got str)"),
        (0, "data: must be a mapping (got int)"),
    ],
)
def test_what_cannot_be_stored_is_named_with_its_place(data: Any, message: str) -> None:
    with pytest.raises(InvalidJobDataError) as caught:
        encode(data)
    assert message in str(caught.value)


def test_data_over_the_limit_is_refused() -> None:
    encode({"a": "x" * 100}, max_bytes=200)
    with pytest.raises(InvalidJobDataError, match="at most 200"):
        encode({"a": "x" * 200}, max_bytes=200)


@pytest.mark.parametrize(
    "stored",
    [
        "{",
        "[1]",
        '{"a": {"$enum": ["os:path", "x"]}}',
        '{"a": {"$nonsense": 1}}',
        '{"a": {"$dataclass": ["os:_exit", {}]}}',
    ],
)
def test_stored_garbage_is_an_error_and_runs_nothing(stored: str) -> None:
    with pytest.raises(InvalidJobDataError):
        decode(stored)


def test_a_map_knows_whether_it_was_changed_also_inside_its_values() -> None:
    data = JobDataMap({"list": [1], "n": 1})
    assert data.encode_if_changed() is None
    data["list"].append(2)
    assert data.encode_if_changed() == '{"list": [1, 2], "n": 1}'
    data["list"].pop()
    assert data.encode_if_changed() is None
    data.clear()
    assert data.encode_if_changed() == "{}"
