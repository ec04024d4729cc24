"""What the web page and the imports rest on against those who are not known yet. One build without each."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_TESTS = "tests/security/test_web_requests.py::"

WEB = (
    Sabotage(
        "no_count_of_body",
        "a body in chunks is read to its end, whoever sends it",
        (Edit("quartzpy.dashboard.middleware", "if self._count > self._most:", "if False:"),),
        (f"{_TESTS}test_a_body_is_counted_while_it_is_read",),
    ),
    Sabotage(
        "no_announced_length",
        "a body is read although it announces that it is too large",
        (Edit("quartzpy.dashboard.middleware", "            body.check_announced(scope)\n", ""),),
        (f"{_TESTS}test_a_body_that_is_announced_as_too_large_is_not_read",),
    ),
    Sabotage(
        "proxies_are_this_machine",
        "without authentication, whoever reaches a proxy on this machine is admitted",
        (Edit("quartzpy.dashboard.auth", "sign_of_a_proxy(request) is None and ", ""),),
        (f"{_TESTS}test_without_authentication_no_proxy_may_stand_in_front",),
    ),
    Sabotage(
        "guesses_without_a_limit",
        "tokens can be guessed at as fast as requests are answered",
        (Edit("quartzpy.dashboard.login_throttle", "if self.count >= patience:", "if False:"),),
        (f"{_TESTS}test_wrong_tokens_are_limited_and_logged",),
    ),
    Sabotage(
        "logout_forgets_the_cookie_only",
        "a copy of a session's cookie is good after the logout",
        (
            Edit(
                "quartzpy.dashboard.sessions",
                "        self._note(session)\n        try:\n",
                "        return\n        try:\n",
            ),
        ),
        (f"{_TESTS}test_a_session_ends_at_logout_for_whoever_has_its_cookie",),
    ),
    Sabotage(
        "streams_without_a_limit",
        "one browser may take every stream",
        (
            Edit(
                "quartzpy.dashboard.live",
                "if of_one >= MAX_STREAMS_OF_ONE or len(self._watchers) >= MAX_STREAMS:",
                "if False:",
            ),
        ),
        (f"{_TESTS}test_streams_are_limited_for_each_session_and_in_all",),
    ),
    Sabotage(
        "headers_without_a_limit",
        "a connection whose request never gets complete stays open",
        (
            Edit(
                "quartzpy.dashboard.server",
                "        self._expiry = None\n            self.transport.close()",
                "        self._expiry = None",
            ),
        ),
        (f"{_TESTS}test_a_request_whose_headers_do_not_come_is_not_waited_for",),
        hangs=True,
    ),
    Sabotage(
        "pickles_of_any_size",
        "a small pickle may stand for more values than any memory holds",
        (Edit("quartzpy.migrate.pickles", "if size > MAX_WRITTEN_OUT or levels > DEEPEST:", "if False:"),),
        ("tests/migrate/test_hostile_pickles.py::test_it_is_refused_by_name[lists in lists]",),
        hangs=True,
    ),
    Sabotage(
        "clients_update_every_column",
        "a client can forge entries of the audit log",
        (
            Edit(
                "quartzpy.store.postgresql.schema.privileges",
                "    return f\"UPDATE ({', '.join(columns)})\"",
                '    return "UPDATE"',
            ),
        ),
        ("tests/postgresql/test_roles.py::test_no_client_changes_what_it_has_no_business_with",),
    ),
)
