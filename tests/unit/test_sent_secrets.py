"""A secret that comes back is not kept, in whatever form it comes, and libraries do not log it."""

from __future__ import annotations

import base64
import html
import json
import logging
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from quartzpy.jobs.sent_secrets import SentSecrets
from quartzpy.logs.captured import LogCapture, capturing
from quartzpy.logs.discretion import discreet
from quartzpy.secret_texts import REDACTED

SECRETS = ["s3cr3t-Value", 'a"b\\c/d&e<f>g h+i=j', "0123456789abcdef" * 4, "Zm9vYmFy/+=="]
FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "upper case of percent": lambda text: quote(text, safe="").lower(),
    "query": lambda text: quote_plus(text),
    "percent": lambda text: "".join(f"%{ord(sign):02X}" for sign in text),
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "JSON": lambda text: json.dumps({"a": text}),
    "JSON in JSON": lambda text: json.dumps(json.dumps([text])),
    "JSON of PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON of code points": lambda text: "".join(f"\\u{ord(sign):04X}" for sign in text),
    "HTML": html.escape,
    "HTML by numbers": lambda text: "".join(f"&#{ord(sign)};" for sign in text),
    "repr": repr,
    "hexadecimal": lambda text: text.encode().hex(),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of a URL": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    **{
        f"base64 behind {number}": lambda text, number=number: base64.b64encode(  # type: ignore[misc]
            b"x" * number + text.encode() + b"yz"
        ).decode()
        for number in range(5)
    },
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_any_form(secret: str, form: str) -> None:
    sent = SentSecrets()
    sent.add("another one", secret)
    text = FORMS[form](secret)
    shown = sent.scrub(f"before {text} after, and <{text}>")
    assert shown.startswith("before ")
    assert shown.count(REDACTED) >= 2
    assert text not in shown
    assert secret not in shown


def test_a_secret_that_the_end_would_cut_is_not_begun() -> None:
    sent = SentSecrets()
    sent.add(SECRETS[0])
    text = f"{SECRETS[0]} 0123 {SECRETS[0]} more"
    for length in range(len(text) + 1):
        shown = sent.beginning(text, length)
        assert "s3" not in shown, length
        assert "lue" not in shown, length
    assert sent.beginning(text, len(text)) == f"{REDACTED} 0123 {REDACTED} more"


def test_the_errors_that_an_error_came_from_lose_it_as_well() -> None:
    sent = SentSecrets()
    sent.add(SECRETS[0])
    cause = OSError(5, f"no route to {SECRETS[0]}")
    error = ValueError(f"failed: {cause}")
    error.__cause__, cause.__context__ = cause, KeyError(SECRETS[0])
    sent.scrub_error(error)
    assert SECRETS[0] not in f"{error} {cause} {cause.args} {cause.__context__}"


@pytest.mark.parametrize("name", ["apprise", "urllib3.connectionpool", "httpx", "httpcore.http11", "requests.sessions"])
def test_libraries_log_no_secret_while_it_is_sent(name: str, caplog: pytest.LogCaptureFixture) -> None:
    sent = SentSecrets()
    sent.add(SECRETS[0])
    logger = logging.getLogger(name)
    lines: list[str] = []
    with caplog.at_level(logging.DEBUG), capturing(LogCapture(logging.DEBUG, lines.append)):
        with discreet(sent.scrub):
            logger.debug("POST /services/%s", SECRETS[0])
            logger.info("request to %s", SECRETS[0])
            logger.warning("failed: %s", SECRETS[0])
            logging.getLogger("app").info("sends")
        logger.debug("the library of somebody else")
    for text in (caplog.text, "".join(lines)):
        assert SECRETS[0] not in text
        assert "sends" in text
        assert "the library of somebody else" in text
    assert f"failed: {REDACTED}" in caplog.text


def test_a_logger_that_is_made_while_a_secret_is_sent_shows_it_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    sent = SentSecrets()
    sent.add(SECRETS[0])
    caplog.set_level(logging.DEBUG)
    with discreet(sent.scrub):
        logger = logging.getLogger(f"httpcore.made_{id(sent)}")
        logger.debug("sends %s", SECRETS[0])
        logger.error("failed: %s", SECRETS[0])
        assert logging.makeLogRecord({"msg": "x"}).getMessage() == "x"
    logger.debug("the library of somebody else")
    assert SECRETS[0] not in caplog.text
    assert f"failed: {REDACTED}" in caplog.text
    assert "the library of somebody else" in caplog.text
