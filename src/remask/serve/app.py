"""The FastAPI app: all routes, behind the middleware."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request

from remask.serve.body import body_route, check_query, validation_error
from remask.serve.errors import ApiError, ErrorResponse
from remask.serve.info_routes import add_model_routes, add_page, add_state_routes
from remask.serve.middleware import Middleware
from remask.serve.openai import add_openai_routes
from remask.serve.routes import add_own_routes
from remask.serve.service import Service

if TYPE_CHECKING:
    from fastapi import FastAPI

# With "default", FastAPI does not document a 422; invalid requests get a 400 here.
_STATUSES = (400, 401, 403, 404, 405, 408, 413, 429, 500, 503, 504, "default")
_PARAMS = {404: "path", 405: "method"}


def build_app(service: Service) -> "FastAPI":
    """Return the app; the caller closes the batcher."""
    from fastapi import APIRouter, Depends, FastAPI

    app = FastAPI(
        title="remask",
        version=version("remask"),
        docs_url=None,  # FastAPI's pages load scripts from the network
        redoc_url=None,
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
        responses={status: {"model": ErrorResponse} for status in _STATUSES},
    )
    checked = APIRouter(dependencies=[Depends(check_query)], route_class=body_route(service))
    for add_routes in (add_own_routes, add_openai_routes, add_model_routes):
        add_routes(checked, service)
    app.include_router(checked)
    add_state_routes(app.router, service)  # unchecked: probes may add query parameters
    add_page(app)
    _add_handlers(app)
    app.add_middleware(Middleware, service=service)
    return app


def _add_handlers(app: "FastAPI") -> None:
    """Raise the framework's errors as `ApiError`; the middleware answers them."""
    from fastapi.exceptions import RequestValidationError

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> None:
        raise validation_error(list(error.errors()), dict(request.query_params))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> None:
        headers = dict(error.headers or {})
        message = str(error.detail)
        if error.status_code == 404:
            message = "There is no such route; GET /openapi.json lists all routes."
        elif error.status_code == 405:
            allowed = headers.get("Allow", "GET")  # older versions omit it for files
            message = f"The method must be {allowed}, got {request.method}."
        param = _PARAMS.get(error.status_code)
        raise ApiError(error.status_code, message, param=param, headers=headers)
