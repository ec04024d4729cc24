"""Secrets are hidden by their names, wherever they are, and what is no secret stays."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.definitions.faults import Faults
from quartzpy.errors import InvalidJobDataError
from quartzpy.instants import MAX_SPAN, as_span, span_text
from quartzpy.jobs.command import Command
from quartzpy.jobs.http import HttpRequest
from quartzpy.operations.definition_secrets import hidden, revealed
from quartzpy.secret_texts import REDACTED, Redaction

S = "s3cr3t-Value"
NAMES = [
    *("X-Api-Key", "x_api_key", "apiKey", "API KEY", "Ocp-Apim-Subscription-Key", "X-Authorization", "X-Auth-Token"),
    *("pwd", "DB_PWD", "passphrase", "Set-Cookie", "sig", "X-Hub-Signature", "AccountKey", "SharedAccessKey"),
    *("AWS_SECRET_ACCESS_KEY", "private-key", "X-Amz-Signature", "client_secret", "refreshToken", "PGPASSWORD"),
]
HIDDEN_TEXTS = [
    f"https://api.example.com/x?api_key={S}&page=2",
    f"https://api.example.com/x?page=2&sig={S}#top",
    f"https://account.blob.core.windows.net/c?sv=1&X-Amz-Signature={S}",
    f"postgresql://app:{S}@db/app",
    f"https://{S}@github.com/x",
    f"redis://:{S}@cache:6379/0",
    f"host=db user=app password={S} dbname=app",
    f"host=db password='{S} and more' dbname=app",
    f"Server=db;Uid=app;Pwd={S};Timeout=5",
    f"AccountName=a;AccountKey={S};EndpointSuffix=x",
    f"pg_dump --password={S} app",
    f"tool --password {S} app",
    f"tool --api-key '{S}' app",
    f"PGPASSWORD={S} pg_dump app",
    f"export TOKEN='{S}'; run",
    f"curl -H 'Authorization: Bearer {S}' https://api.example.com",
    f'curl -H "X-Api-Key: {S}" https://api.example.com',
    f"curl -u ann:{S} https://api.example.com",
    f"curl --user=ann:{S} https://api.example.com",
    f"mysql -p{S} app",
    f"sshpass -p {S} ssh host",
    f'{{"password": "{S}", "user": "ann"}}',
    f"{{'client_secret': '{S}'}}",
    f"Basic {S}AAAA",
    *(f"https://h/x#access_token={S}", f"https://h/x;token={S}", f"https://h/?next=%2Fx%3Ftoken%3D{S}%26page=2"),
    *(f"//user:{S}@h/x", f"postgresql+psycopg://u:a/{S}@h/db", f"postgresql://u:{S}?x@h/db", f"amqp://u:{S}#x@h"),
    *(f"PGPASSWORD='ab'\\''{S}' psql", f"PGPASSWORD=ab,{S} psql", f"PGPASSWORD=ab\\ {S} psql", f"password => {S}"),
    *(f'PGPASSWORD="ab\\"{S}" psql', f"PGPASSWORD=ab{{{S}}} psql", f"host=h password='ab\\'{S}' dbname=a"),
    *(
        f'{{"password": "ab\\"{S}", "b": 1}}',
        f'"{{\\\\\\"password\\\\\\": \\\\\\"{S}\\\\\\"}}"',
        f'{{"passwords": ["a", "{S}"]}}',
    ),
    *(f"<password>{S}</password>", f"Cookie: a=b; session={S}", f"curl -H 'Cookie: a=b; session={S}' x"),
    *(f'Authorization: Digest username="u", response="{S}"', f"Authorization: Negotiate {S}", f"curl -b s={S} x"),
    *(
        f"curl -H Authorization:\\ Bearer\\ {S} x",
        f"redis-cli -h x -a {S}",
        f"mongosh -u a -p {S}",
        f"ldapsearch -w {S}",
    ),
    *(f"mysql -uroot -p'{S}'", f"docker login -u u -p {S}", f"http -a u:{S} x", f"curl -sSu u:{S} x"),
    *(f"curl --oauth2-bearer {S} x", f"https://hooks.slack.com/services/T0/B0/{S}", f"xoxb-{S}"),
]
SHAPES = ["ghp_" + "a1B2" * 9, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3", "glpat-" + "x1" * 10]

SHOWN_TEXTS = [
    *("https://api.example.com/reports?page=2&sort=asc", "pg_dump --file=/backup/app app", "echo hello: world"),
    *("rsync -a -p /src /dst", "postgresql://app@db/app", "mkdir -p /srv/x", "2026-11-29T10:00:00+01:00", "a = b"),
    *("ssh -p 2222 host", "tar --exclude=*.tmp -cf x", "--no-color", "C:\\path\\x", "key=value", "author: ann"),
    *("http://host:8080/path@v1", "bypass=yes compass: north", "docker run -p 80:80 x", "f(a, b=1)", "redis-cli -h a"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_value_is_hidden_by_its_name(name: str) -> None:
    redaction = Redaction()
    assert redaction.of({"headers": {name: S}}) == {"headers": {name: REDACTED}}
    assert S not in redaction.of(f"https://x.test/?{name.replace(' ', '')}={S}")
    assert redaction.of([{"name": name, "value": S}])[0]["value"] == REDACTED


@pytest.mark.parametrize("text", HIDDEN_TEXTS)
def test_a_text_loses_its_secrets_and_nothing_else(text: str) -> None:
    shown = Redaction().of({"shell": text})["shell"]
    assert S not in shown
    assert REDACTED in shown
    assert Redaction().of(shown) == shown, "hidden once, it stays as it is"
    assert Redaction(()).of(text) == text


@pytest.mark.parametrize("text", SHAPES)
def test_a_secret_of_a_known_form_is_hidden_without_a_name(text: str) -> None:
    assert Redaction().of({"a": f"clone {text} x"}) == {"a": f"clone {REDACTED} x"}


@pytest.mark.parametrize("text", SHOWN_TEXTS)
def test_a_text_without_secrets_stays(text: str) -> None:
    assert Redaction().of({"shell": text, "argv": text.split()}) == {"shell": text, "argv": text.split()}


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["tool", "--password", S, "app"], ["tool", "--password", REDACTED, "app"]),
        (["tool", f"--password={S}"], ["tool", f"--password={REDACTED}"]),
        (["tool", "-token", S], ["tool", "-token", REDACTED]),
        (["tool", "--password", "--force"], ["tool", "--password", "--force"]),
        (["/usr/bin/mysqldump", "-u", "root", f"-p{S}"], ["/usr/bin/mysqldump", "-u", "root", f"-p{REDACTED}"]),
        (["sshpass", "-p", S, "ssh", "host"], ["sshpass", "-p", REDACTED, "ssh", "host"]),
        (["curl", "-u", f"ann:{S}", "x"], ["curl", "-u", f"ann:{REDACTED}", "x"]),
        (["curl", "-H", f"Authorization: Token {S}"], ["curl", "-H", f"Authorization: Token {REDACTED}"]),
        (["redis-cli", "-a", S], ["redis-cli", "-a", REDACTED]),
        (["timeout", "5", "mysql", f"-p{S}"], ["timeout", "5", "mysql", f"-p{REDACTED}"]),
        (["sudo", "sshpass", "-p", S, "ssh"], ["sudo", "sshpass", "-p", REDACTED, "ssh"]),
        (["curl", f"-uu:{S}"], ["curl", f"-uu:{REDACTED}"]),
        (["curl", "-b", f"s={S}"], ["curl", "-b", REDACTED]),
        (["Authorization", S], ["Authorization", REDACTED]),
        (["mkdir", "-p", "/srv/x"], ["mkdir", "-p", "/srv/x"]),
    ],
)
def test_the_words_of_a_command_lose_their_secrets(argv: list[str], shown: list[str]) -> None:
    assert Redaction().of({"argv": argv}) == {"argv": shown}


def test_what_is_shown_can_be_sent_back_and_nothing_of_it_elsewhere() -> None:
    redaction = Redaction()
    data = {
        "argv": ["tool", "--password", S, f"--dsn=postgresql://app:{S}@db/app"],
        "url": f"https://x.test/?api_key={S}",
        "headers": {"X-Api-Key": S, "Accept": "a"},
    }
    stored = {"type": "t", "data": data}
    shown = hidden(stored, redaction)
    assert S not in repr(shown)
    faults = Faults()
    assert revealed(shown, stored, redaction, faults) == stored
    assert not faults.entries
    elsewhere = {**shown, "data": {**shown["data"], "url": f"https://evil.test/?api_key={REDACTED}"}}
    revealed(elsewhere, stored, redaction, faults)
    assert len(faults.entries) == 1


@pytest.mark.parametrize(
    "text",
    [
        "a=" * 30_000,
        "-" * 60_000,
        "a" * 60_000,
        "://:" * 15_000,
        "password: " * 6_000,
        "a://b:" * 10_000,
        "%3Fa" * 15_000,
        "<a>" * 20_000,
        "cookie:" * 9_000,
        "password='" * 6_000,
        "\\\\" * 30_000,
        "password=a\\\\" * 6_000,
        "a:[" * 20_000,
        "eyJ" * 20_000,
        "xoxb-" * 12_000,
        "PRIVATE KEY-----" * 4_000,
        "curl -u " * 7_000,
        'a="\\\\' * 9_000,
        "a%3Db" * 12_000,
    ],
)
def test_long_texts_are_read_in_a_time_that_grows_with_them(text: str) -> None:
    before = time.process_time()
    Redaction().of(text)
    assert time.process_time() - before < 2


@pytest.mark.parametrize(
    "name", ["X-Api-Key", "Authorization", "Proxy-Authorization", "Cookie", "X-Auth-Token", "Ocp-Apim-Subscription-Key"]
)
def test_no_header_of_a_job_contains_a_secret(name: str) -> None:
    with pytest.raises(InvalidJobDataError, match="use auth"):
        HttpRequest("https://x.test/", headers={name: S})
    HttpRequest("https://x.test/", auth={"headers": {"X-Api-Key": "NAME"}})


spans = st.timedeltas(timedelta(0), MAX_SPAN)


@given(spans)
def test_a_span_is_written_exactly(span: timedelta) -> None:
    assert as_span(span_text(span), "x") == span


@pytest.mark.parametrize(
    ("span", "text"),
    [("10s", "10s"), ("123456789us", "123.456789s"), ("4m", "240s"), ("1us", "0.000001s"), (0.25, "0.25s")],
)
def test_the_spans_of_included_jobs_are_stored_exactly(span: Any, text: str) -> None:
    command = Command(["true"], grace=span)
    assert command.grace == text
    assert Command(["true"], grace=command.grace) == command
    request = HttpRequest("https://x.test/", timeout=span)
    assert request.timeout == text
    assert HttpRequest("https://x.test/", timeout=request.timeout) == request
