"""The actions: a page that asks for confirmation and a reason, previews, and the change itself.

The same URL serves a form without any script, and a dialog of the script: a request with the header X-Dialog is
answered with the form alone, and a success with the URL to go to.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.actions.background import BackgroundActions
from quartzpy.dashboard.actions.forms import argument_of, carry_out, count_of_subjects, filled_in
from quartzpy.dashboard.actions.given import Given, Subjects, subjects_of
from quartzpy.dashboard.actions.previews import PREVIEWS
from quartzpy.dashboard.csrf import keep_csrf_token
from quartzpy.dashboard.live import NODES, SCHEDULE, LiveHub
from quartzpy.dashboard.visit import Visit, form, page
from quartzpy.errors import (
    ForbiddenError,
    InvalidValueError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    QuartzpyError,
    StoreUnavailableError,
)
from quartzpy.operations import ActionProgress, ActionResult
from quartzpy.operations.actions.action import Action
from quartzpy.operations.actions.inputs import Data
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.selection import Keys, Selection, Subject

LOCATION = "X-Location"
"""The header with the URL that the script opens after a success."""
_MOST_SHOWN = 20
_ELSEWHERE = (ForbiddenError, ObjectNotFoundError, StoreUnavailableError, OutcomeUnknownError)
"""Errors that the form cannot mend: they have pages of their own."""


def asked(visit: Visit) -> Response:
    return _ask(visit, Given(visit.request.query_params, FormData()))


def sent(visit: Visit, fields: FormData) -> Response:
    given = Given(visit.request.query_params, fields)
    if not given.has("confirmed"):
        # The list of selected subjects, which may be too long for a link.
        return _ask(visit, given)
    action = _action(visit)
    subjects = subjects_of(visit, given, action)
    try:
        result = _carried_out(visit, given, action, subjects)
    except _ELSEWHERE:
        raise
    except QuartzpyError as error:
        status = 422 if isinstance(error, InvalidValueError) else 409
        return _ask(visit, given, error=str(error), status=status)
    return _done(visit, given, subjects, result)


def _carried_out(visit: Visit, given: Given, action: Action, subjects: Subjects) -> ActionResult | ActionProgress:
    actions, why = visit.operations.actions, given.get("reason").strip()
    if not _is_many(subjects):
        return carry_out(action, actions, subjects, visit, given, why)
    background: BackgroundActions = visit.request.app.state.background
    return background.run(
        lambda report: carry_out(action, actions.reporting(report), subjects, visit, given, why),
        count_of_subjects(actions, subjects),
    )


def _is_many(subjects: Subjects) -> bool:
    if isinstance(subjects, Keys):
        return len(subjects.keys) > 1
    return isinstance(subjects, Selection) and not subjects.is_pause


def _ask(visit: Visit, given: Given, *, error: str | None = None, status: int = 200) -> Response:
    """Return the form that asks for confirmation."""
    action, actions = _action(visit), visit.operations.actions
    actions.check_permitted(action.name)
    subjects = subjects_of(visit, given, action)
    keys = subjects.keys if isinstance(subjects, Keys) else ()
    given, shown = filled_in(visit, given, action, subjects), PREVIEWS.get(action.name)
    takes_data = any(isinstance(item, Data) for item in action.inputs)
    return _rendered(
        visit,
        "actions/confirm.html",
        status,
        action=action,
        subjects=subjects,
        many=_is_many(subjects),
        count=count_of_subjects(actions, subjects),
        shown=keys[:_MOST_SHOWN],
        given=given,
        next=_next(visit, given),
        error=error,
        data_fields=actions.data_fields(argument_of(action, subjects)) if takes_data else None,
        preview_template=shown.template if shown else None,
        **(shown.context(visit, argument_of(action, subjects), given) if shown else {}),
    )


def preview(visit: Visit) -> Response:
    action = _action(visit)
    shown = PREVIEWS.get(action.name)
    if shown is None:
        raise HTTPException(404, f"there is no preview of {action.name}")
    given = Given(visit.request.query_params, FormData())
    argument = argument_of(action, subjects_of(visit, given, action))
    return _rendered(visit, shown.template, **shown.context(visit, argument, given))


def _done(visit: Visit, given: Given, subjects: Subjects, result: ActionResult | ActionProgress) -> Response:
    """Return to the page that the action was asked on, which shows the result; or lead to the progress."""
    hub: LiveHub = visit.request.app.state.hub
    hub.changed(SCHEDULE, NODES)
    url = _next(visit, given)
    if isinstance(result, ActionProgress):
        return _leading(visit, visit.links.to(f"/audit/{result.action_id}", next=url), "")
    if result.action == "delete" and urlsplit(url).path in (visit.links.to("/job"), visit.links.to("/trigger")):
        url = visit.links.to("/jobs" if isinstance(subjects, Keys) and subjects.kind is Subject.JOB else "/triggers")
    return _leading(visit, url, result.text)


def _leading(visit: Visit, url: str, notice: str) -> Response:
    response = visit.redirect(url, notice)
    if visit.is_dialog:
        # A script cannot see where a redirection leads without following it.
        cookies = response.headers.getlist("set-cookie")
        response = Response(status_code=204, headers={LOCATION: url})
        for cookie in cookies:
            response.headers.append("set-cookie", cookie)
    return response


def _next(visit: Visit, given: Given) -> str:
    """Return the URL of the page to return to: the one that the reader comes from, if it is one of ours."""
    wanted = given.get("next")
    referer = urlsplit(visit.request.headers.get("referer", ""))
    if not wanted and referer.netloc == visit.request.headers.get("host"):
        wanted = f"{referer.path}?{referer.query}" if referer.query else referer.path
    if visit.links.is_ours(wanted) and not urlsplit(wanted).path.startswith(visit.links.to("/actions/")):
        return wanted
    return visit.links.to("/")


def _action(visit: Visit) -> Action:
    name = visit.request.path_params["action"]
    try:
        return ACTIONS[name]
    except KeyError:
        raise HTTPException(404, f"there is no action {name}") from None


def _rendered(visit: Visit, template: str, status: int = 200, **context: Any) -> Response:
    if not visit.is_dialog and not visit.is_fragment:
        return visit.render(template, status=status, **context)
    text = visit.dashboard.templates.render(template, visit=visit, layout="actions/dialog.html", live="", **context)
    # Browsers report any other status to the console as an error of the page.
    response = HTMLResponse(text, 200)
    keep_csrf_token(visit.request, response)
    return response


routes: list[BaseRoute] = [
    Route("/actions/{action}/preview", page(preview)),
    Route("/actions/{action}", page(asked), methods=["GET"]),
    Route("/actions/{action}", form(sent), methods=["POST"]),
]
