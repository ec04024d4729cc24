"""A name means one thing: no two classes have one, and modules only where they are one thing on several floors."""

from __future__ import annotations

import ast
from collections import defaultdict

from tools.journeys import PACKAGE, modules

ON_SEVERAL_FLOORS = """
    acquire action actions app audit_log business_days calendars clock cluster complete cron crontab definitions
    execution_log expectations filters fleet history holdings job_transaction jobs joins keys late_triggers limits
    listen lists lookups methods misfire node pages pausing plugin queries reader records recover registry rows
    schedule scheduler schedules scheduling search slices store storing submissions table time_off timeline transactions
    triggers zone_rules
"""
"""The names that several modules have, because they are one thing: what a method, a step of each store, a command and a
page do with it. For another thing, choose another name."""


OF_DJANGO = PACKAGE / "ext" / "django"
"""Django prescribes the name of a command's class, and shows the names of models to administrators."""


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path in modules():
        if OF_DJANGO in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert {name: of for name, of in places.items() if len(of) > 1} == {}


def test_modules_of_one_name_are_one_thing_on_several_floors() -> None:
    places = defaultdict(list)
    for path in modules():
        if not path.stem.startswith("__"):
            places[path.stem].append(str(path.relative_to(PACKAGE)))
    assert {name for name, of in places.items() if len(of) > 1} == set(ON_SEVERAL_FLOORS.split())
