"""What is a data type, what is stored of its values, and what is built of what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, make_dataclass
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext
from quartzpy.errors import InvalidJobDataError, InvalidJobTypeError, UnknownJobTypeError
from quartzpy.job_data import INTERNAL_KEYS, decode, encode
from quartzpy.jobs.job import job_types
from quartzpy.jobs.typed_data import as_mapping, build, checked_type, refuse_unknown


@dataclass(frozen=True)
class Report:
    region: str
    pages: int = 10


@dataclass(frozen=True)
class Printed(Report):
    colour: bool = False


@dataclass
class Circle:
    """With what a constructor takes and does not keep, and keeps and does not take."""

    radius: float
    unit: InitVar[str] = "m"
    area: float = field(init=False)

    def __post_init__(self, unit: str) -> None:
        if self.radius < 0:
            raise ValueError("radius: from 0")
        self.radius *= 1000 if unit == "km" else 1
        self.area = 3 * self.radius**2


@dataclass
class Signed:
    text: str
    secret: InitVar[str]


@dataclass(init=False)
class Open:
    """Takes what there is."""

    def __init__(self, **values: Any) -> None:
        self.values = values


class Model:
    """What is looked for in a model of pydantic's."""

    def __init__(self, region: str) -> None:
        self.region = region

    @classmethod
    def model_validate(cls, data: Any) -> Model:
        if set(data) != {"region"}:
            raise ValueError("1 validation error")
        return cls(data["region"].upper())

    def model_dump(self) -> dict[str, Any]:
        return {"region": self.region}


@dataclass(frozen=True)
class Grown(Report):
    """Was called by another name once."""

    @classmethod
    def from_job_data(cls, data: Mapping[str, Any]) -> Grown:
        if "area" in data:
            return cls(data["area"])
        return cls(**data)


class GrownModel(Model):
    @classmethod
    def from_job_data(cls, data: Mapping[str, Any]) -> GrownModel:
        return cls(data["area"])


class Read:
    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)

    @classmethod
    def from_job_data(cls, data: Mapping[str, Any]) -> Read:
        return cls(data)


class OwnReader:
    def from_job_data(self, data: Mapping[str, Any]) -> None: ...


class HalfAModel:
    @classmethod
    def model_validate(cls, data: Any) -> None: ...


# --- data types


@pytest.mark.parametrize("data_type", [Report, Printed, Circle, Open, Model, Grown, GrownModel, Read])
def test_a_data_type_is_recognised(data_type: type) -> None:
    assert checked_type(data_type, "Job") is data_type


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict, "a dataclass, a pydantic model, or a class with a classmethod from_job_data(data) (got dict)"),
        (HalfAModel, "(got HalfAModel)"),
        (Report("eu"), "(got Report(region='eu', pages=10))"),
        (Read({}).from_job_data, "(got <bound method"),
        ("Report", "(got 'Report')"),
        (OwnReader, "OwnReader.from_job_data must be a classmethod"),
    ],
)
def test_what_is_no_data_type_is_refused_when_the_class_is_defined(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidJobTypeError) as caught:

        class Wrong(Job, type_name="of-a-wrong-data-type", data_type=wrong):
            def execute(self, context: JobExecutionContext) -> None: ...

    assert message in str(caught.value)
    assert "Wrong: data_type" in str(caught.value)
    with pytest.raises(UnknownJobTypeError):
        job_types.find("of-a-wrong-data-type")


class Untyped(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


class Reporting(Untyped, data_type=Report):
    pass


class StillReporting(Reporting, type_name="still-reporting"):
    pass


class Printing(Reporting, data_type=Printed):
    pass


def test_subclasses_inherit_the_data_type_unless_they_have_their_own() -> None:
    classes = [Untyped, Reporting, StillReporting, Printing]
    assert [cls.data_type for cls in classes] == [None, Report, Report, Printed]
    assert job_types.data_type("still-reporting") is job_types.data_type(StillReporting) is Report
    assert job_types.data_type("not registered") is None


# --- what is stored


@pytest.mark.parametrize(
    ("data_type", "data", "stored"),
    [
        (Report, None, None),
        (Report, {"regio": "eu"}, {"regio": "eu"}),
        (Report, Report("eu"), {"region": "eu", "pages": 10}),
        (Report, Printed("eu"), {"region": "eu", "pages": 10, "colour": False}),
        (Circle, Circle(2), {"radius": 2}),
        (Signed, Signed("a", "b"), {"text": "a"}),
        (Grown, Grown("eu"), {"region": "eu", "pages": 10}),
        (Model, Model("eu"), {"region": "eu"}),
        (GrownModel, GrownModel("eu"), {"region": "eu"}),
        (None, {"a": 1}, {"a": 1}),
    ],
)
def test_a_mapping_is_stored(data_type: Any, data: Any, stored: Any) -> None:
    assert as_mapping(data, data_type) == stored


def test_values_inside_stay_what_they_are() -> None:
    outer = make_dataclass("outer", ["report", "reports"])
    given = outer(Report("eu"), [Printed("us")])
    stored = as_mapping(given, outer)
    assert stored == {"report": Report("eu"), "reports": [Printed("us")]}
    assert build(outer, decode(encode(stored)), "job").reports == [Printed("us")]


@pytest.mark.parametrize(
    ("job", "data", "message"),
    [
        (Reporting, Circle(1), "data: must be a Report or a mapping (got Circle)"),
        (Reporting, Report, "data: must be a Report or a mapping (got type)"),
        (Reporting, [1], "data: must be a Report or a mapping (got list)"),
        (Printing, Report("eu"), "data: must be a Printed or a mapping (got Report)"),
        (Untyped, Report("eu"), "data: must be a mapping (got Report)"),
        (Reporting, Report({1, 2}), "data['region']: set cannot be stored"),  # type: ignore[arg-type]
    ],
)
def test_another_value_is_refused_by_the_detail(job: Any, data: Any, message: str) -> None:
    with pytest.raises(InvalidJobDataError) as caught:
        JobDetail(job, "job", data=data)
    assert message in str(caught.value)


def test_a_value_without_known_fields_is_refused() -> None:
    with pytest.raises(InvalidJobDataError, match="must be a mapping, because the fields of a Read are not known"):
        as_mapping(Read({}), Read)


def test_a_detail_keeps_the_mapping() -> None:
    of_class = JobDetail(Reporting, "job", data=Report("eu"))
    assert of_class.data == {"region": "eu", "pages": 10}
    assert JobDetail("still-reporting", "job", data=Report("eu")).data == of_class.data
    assert of_class.with_values({"data": Report("us", 2)}).data == {"region": "us", "pages": 2}


# --- what is built


@pytest.mark.parametrize(
    ("data_type", "data", "built"),
    [
        (Report, {"region": "eu"}, Report("eu")),
        (Report, {"region": "eu", "pages": 3}, Report("eu", 3)),
        (Printed, {"region": "eu", "colour": True}, Printed("eu", colour=True)),
        (Circle, {"radius": 2}, Circle(2)),
        (Circle, {"radius": 2, "unit": "km"}, Circle(2000)),
        (Grown, {"area": "eu"}, Grown("eu")),
        (Grown, {"region": "eu"}, Grown("eu")),
    ],
)
def test_a_value_is_built(data_type: type, data: dict[str, Any], built: Any) -> None:
    assert build(data_type, data, "job") == built


@pytest.mark.parametrize(("data_type", "data"), [(Model, {"region": "eu"}), (GrownModel, {"area": "EU"})])
def test_a_model_is_built_by_its_own_reader(data_type: type, data: dict[str, Any]) -> None:
    built = build(data_type, data, "job")
    assert (type(built), built.region) == (data_type, "EU")


@pytest.mark.parametrize("data_type", [Open, Read])
def test_what_a_trigger_that_runs_it_again_carries_is_left_out(data_type: type) -> None:
    data = {"region": "eu", **dict.fromkeys(INTERNAL_KEYS, "1")}
    given = dict(data)
    built = build(data_type, data, "job")
    assert list(vars(built).values()) == [{"region": "eu"}]
    assert build(Report, data, "job") == Report("eu")
    refuse_unknown(Report, data, "job")
    assert data == given, "what was given is not changed"


@pytest.mark.parametrize(
    ("data_type", "data", "message"),
    [
        (Report, {}, "missing: region"),
        (Signed, {}, "missing: text, secret"),
        (Report, {"region": "eu", "page": 3}, "unknown: 'page' (did you mean pages?)"),
        (
            Report,
            {"region": "eu", "x": 1, "": 2},
            "unknown: 'x' (known: region, pages), '' (known: region, pages)",
        ),
        (Report, {"regio": "eu"}, "missing: region; unknown: 'regio' (did you mean region?)"),
        (Circle, {"radius": 2, "area": 12}, "unknown: 'area' (known: radius, unit)"),
        (make_dataclass("Empty", []), {"x": 1}, "unknown: 'x' (known: none)"),
        (Circle, {"radius": -1}, "ValueError: radius: from 0"),
        (Circle, {"radius": "wide"}, "TypeError: '<' not supported"),
        (Model, {"regio": "eu"}, "ValueError: 1 validation error"),
        (Grown, {"regio": "eu"}, "TypeError: "),
        (GrownModel, {"region": "eu"}, "KeyError: 'area'"),
    ],
)
def test_data_of_which_nothing_can_be_built_is_refused_with_the_reason(
    data_type: type, data: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidJobDataError) as caught:
        build(data_type, data, "job DEFAULT.report")
    assert str(caught.value).startswith(
        f"job DEFAULT.report: the data does not fit {data_type.__qualname__}: {message}"
    )
    raised = message.partition(":")[0].endswith("Error")
    assert (caught.value.__cause__ is not None) == raised, "what the type raised is the cause"


@pytest.mark.parametrize(
    ("data_type", "data"),
    [
        (Report, {}),
        (Report, {"pages": 1}),
        (Circle, {"unit": "km"}),
        (Open, {"x": 1}),
        (Model, {"x": 1}),
        (Read, {"x": 1}),
    ],
)
def test_a_job_may_lack_entries_that_its_triggers_provide(data_type: type, data: dict[str, Any]) -> None:
    refuse_unknown(data_type, data, "job")


def test_alone_a_job_may_not_have_what_its_type_does_not_have() -> None:
    with pytest.raises(InvalidJobDataError) as caught:
        refuse_unknown(Report, {"regio": "eu"}, "job DEFAULT.report")
    assert (
        str(caught.value) == "job DEFAULT.report: the data does not fit Report: unknown: 'regio' (did you mean region?)"
    )
