"""The JSON API as an ASGI application, to be mounted at `/api/v1`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.api import bodies, definitions, openapi
from quartzpy.dashboard.api.reads import ENTRY, FLEET_READS, READS, Read, values_of
from quartzpy.dashboard.api.responses import HANDLERS, AcceptedAction, problem
from quartzpy.dashboard.background import BackgroundActions
from quartzpy.errors import PreconditionFailedError
from quartzpy.operations import ActionProgress, Actions, Actor, Operations, Selection
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.definition_records import DefinitionOutcome, Expected
from quartzpy.operations.fleet import Fleet
from quartzpy.operations.render import to_json

PREFIX = "/api/v1"

PATIENCE = 2.0
"""The time, in seconds, for which a request waits for the end of an action on many subjects."""
_Endpoint = Callable[[Request], Awaitable[Response]]


class JsonResponse(JSONResponse):
    """A response whose content is a read model."""

    def render(self, content: Any) -> bytes:
        # Job data may contain text that is not valid Unicode, which only ASCII can carry.
        return json.dumps(to_json(content), allow_nan=False, separators=(",", ":")).encode()


def _is_many(selected: object) -> bool:
    return isinstance(selected, list) or (isinstance(selected, Selection) and not selected.is_pause)


def create_api(
    operations: Operations,
    background: BackgroundActions,
    *,
    actor_of: Callable[[Request], Actor | None],
    check_request: Callable[[Request], None],
    refused: type[Exception],
    fleet: Fleet | None = None,
) -> Starlette:
    """Return the API as an application.

    Args:
        operations: the operations, which act as the actor of each request.
        background: carries out the actions on many subjects.
        actor_of: returns the actor of a request; None refuses it with status 401.
        check_request: checks that a request which changes something comes from a page of this site or has a token of
            its own.
        refused: the error that `check_request` raises.
        fleet: several schedulers, which can be read besides.
    """

    limiters: list[CapacityLimiter] = []

    def acting(request: Request) -> Operations | None:
        actor = actor_of(request)
        return None if actor is None else operations.acting_as(actor)

    def unauthenticated() -> Response:
        return problem(401, "This request does not say who sends it.")

    def read_endpoint(read: Read, source: Fleet | None = None) -> _Endpoint:
        async def endpoint(request: Request) -> Response:
            if (own := acting(request)) is None:
                return unauthenticated()
            # Reads block.
            return JsonResponse(await run_in_threadpool(answered, request, own, read, source or own))

        return endpoint

    def answered(request: Request, own: Operations, read: Read, source: Operations | Fleet) -> Any:
        return read.answer(source, values_of(read.parameters, request.query_params.multi_items(), own))

    def action_endpoint(action: str) -> _Endpoint:
        async def endpoint(request: Request) -> Response:
            if (own := acting(request)) is None:
                return unauthenticated()
            check_request(request)
            return await run_in_threadpool(acted, request, own, action, await request.body())

        return endpoint

    def acted(request: Request, own: Operations, action: str, body: bytes) -> Response:
        return carried_out(request, own.actions, action, bodies.arguments_of(action, body, own.now))

    def carried_out(request: Request, actions: Actions, action: str, arguments: dict[str, Any]) -> Response:
        if action not in ACTIONS or not _is_many(arguments.get("selection")):
            return JsonResponse(getattr(actions, action)(**arguments))
        total = actions.count(arguments["selection"])
        result = background.run(lambda report: getattr(actions.reporting(report), action)(**arguments), total, PATIENCE)
        if not isinstance(result, ActionProgress):
            return JsonResponse(result)
        place = f"{request.scope['root_path']}{ENTRY}?{urlencode({'action_id': result.action_id})}"
        accepted = AcceptedAction(result.action_id, result.changed, result.failed, total)
        return JsonResponse(accepted, 202, headers={"Location": place, "Retry-After": "1"})

    async def in_turn(work: Callable[..., Response], *arguments: Any) -> Response:
        # Changes wait for each other in the database: many at once must not occupy the threads of all requests.
        if not limiters:
            limiters.append(CapacityLimiter(definitions.WRITERS))
        return await to_thread.run_sync(partial(work, *arguments), limiter=limiters[0])

    def definition_endpoint(resource: definitions.Resource) -> _Endpoint:
        async def endpoint(request: Request) -> Response:
            if (own := acting(request)) is None:
                return unauthenticated()
            if request.method in ("GET", "HEAD"):
                return await run_in_threadpool(shown, request, own, resource)
            check_request(request)
            body = await request.body()
            return await in_turn(changed, request, own, resource, body)

        return endpoint

    def shown(request: Request, own: Operations, resource: definitions.Resource) -> Response:
        key, expected = resource.key_of(request), definitions.expected_by(request)
        values_of((), request.query_params.multi_items(), own)
        definition = resource.read(own.definitions, key)
        headers = definitions.etag(definition.tag)
        if not Expected(None, expected.other_tags).holds_for(definition):
            return Response(status_code=304, headers=headers)
        if not expected.holds_for(definition):
            raise PreconditionFailedError(f"the tag of the definition is {definition.tag}", definition)
        return JsonResponse(definition.document, headers=headers)

    def changed(request: Request, own: Operations, resource: definitions.Resource, body: bytes) -> Response:
        key, expected = resource.key_of(request), definitions.expected_by(request)
        values = values_of(definitions.CHANGE_PARAMETERS, request.query_params.multi_items(), own)
        if request.method == "DELETE":
            result = resource.delete(own.definitions, key, expected=expected, **values)
            return JsonResponse(result) if result.dry_run else Response(status_code=204)
        # Whoever may not define is refused before a large body is parsed.
        permitted = own.definitions.permits(None if isinstance(key, str) else [key.group])
        document = definitions.json_document(request, body) if permitted else None
        result = resource.put(own.definitions, key, document, expected=expected, **values)
        is_new = result.outcome is DefinitionOutcome.CREATED and not result.dry_run
        return JsonResponse(result, 201 if is_new else 200, headers=definitions.etag(result.tag))

    async def batch_endpoint(request: Request) -> Response:
        if (own := acting(request)) is None:
            return unauthenticated()
        check_request(request)
        body = await request.body()
        return await in_turn(put_batch, request, own, body)

    def put_batch(request: Request, own: Operations, body: bytes) -> Response:
        batch = definitions.batch_of(request)
        values = values_of(definitions.CHANGE_PARAMETERS, request.query_params.multi_items(), own)
        permitted = own.definitions.permits([batch.job.group])
        document = definitions.json_document(request, body) if permitted else None
        result = own.definitions.put_batch(batch, document, **values)
        is_new = result.outcome is DefinitionOutcome.CREATED and not result.dry_run
        return JsonResponse(result, 201 if is_new else 200)

    async def apply_endpoint(request: Request) -> Response:
        if (own := acting(request)) is None:
            return unauthenticated()
        check_request(request)
        body = await request.body()
        return await in_turn(applied, request, own, body)

    def applied(request: Request, own: Operations, body: bytes) -> Response:
        values = values_of(definitions.APPLY_PARAMETERS, request.query_params.multi_items(), own)
        document = definitions.file_document(request, body) if own.definitions.permits_files() else None
        return JsonResponse(own.definitions.apply(document, **values))

    async def described(request: Request) -> Response:
        return JSONResponse(openapi.document())

    def forged(request: Request, error: Exception) -> Response:
        return problem(403, str(error))

    routes: list[BaseRoute] = [Route("/openapi.json", described)]
    routes += [Route(read.path, read_endpoint(read)) for read in READS]
    if fleet is not None:
        routes += [Route(read.path, read_endpoint(read, fleet)) for read in FLEET_READS]
    routes += [
        Route(f"/{resource.collection}/{{key:path}}", definition_endpoint(resource), methods=["GET", "PUT", "DELETE"])
        for resource in definitions.RESOURCES
    ]
    routes.append(Route(f"/{definitions.BATCHES}/{{key:path}}", batch_endpoint, methods=["PUT"]))
    routes.append(Route(definitions.APPLY, apply_endpoint, methods=["POST"]))
    routes += [
        Route(f"/actions/{action.replace('_', '-')}", action_endpoint(action), methods=["POST"])
        for action in bodies.methods()
    ]
    return Starlette(routes=routes, exception_handlers={**HANDLERS, refused: forged})
