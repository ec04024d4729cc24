"""The requests that are measured beside a long history: each resource of the JSON API gets what it needs."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from benchmarks.operated.pages import all_resources
from quartzpy.dashboard.api.reads import READS


def test_each_resource_is_asked_with_what_it_requires() -> None:
    asked = {(parts := urlsplit(url)).path.removeprefix("/api/v1"): parse_qs(parts.query) for url in all_resources(100)}
    for read in READS:
        lacking = {parameter.name for parameter in read.parameters if parameter.required} - set(asked[read.path])
        assert lacking == set(), read.path
