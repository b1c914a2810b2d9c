"""All of it together: the model at work, the app and its documents."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from remask.errors import MissingExtra
from remask.serve.batcher import Batcher
from remask.serve.chat import chat_routes
from remask.serve.errors import Fault, invalid, no_object, unsupported
from remask.serve.info_routes import add_page, model_routes, state_routes
from remask.serve.metrics import Meters
from remask.serve.middleware import Gate
from remask.serve.routes import own_routes
from remask.serve.service import ServeSettings, Service

if TYPE_CHECKING:
    from fastapi import FastAPI

    from remask.denoisers.base import Denoiser


def check_extra() -> None:
    """Refuse to go on without the packages of the extra."""
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        try:
            __import__(package)
        except ImportError:
            raise MissingExtra(package.replace("_", "-"), "serve") from None


def build_service(denoiser: "Denoiser", settings: ServeSettings) -> Service:
    """Return a model at work."""
    check_extra()
    meters = Meters()
    batcher = Batcher(denoiser, meters, settings.max_queue)
    meters.watch_queue(lambda: batcher.num_jobs)
    batcher.start()
    return Service(denoiser=denoiser, settings=settings, meters=meters, batcher=batcher)


def build_app(service: Service) -> "FastAPI":
    """Return the app; whoever runs it closes the batcher at the end."""
    from fastapi import Depends, FastAPI

    # No pages of documentation: those of the framework come from the network.
    app = FastAPI(
        title="remask", version=_version(), docs_url=None, redoc_url=None,
        separate_input_output_schemas=False,
    )  # fmt: skip
    for routes in (own_routes, chat_routes, model_routes):
        app.include_router(routes(service), dependencies=[Depends(_known_query())])
    app.include_router(state_routes(service))  # probes add what they like
    add_page(app)
    _add_handlers(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    app.add_middleware(Gate, service=service)
    return app


def _known_query() -> Callable[..., None]:
    """Return what refuses a parameter of the query that its route does not have."""
    from starlette.requests import Request

    def check(request: Request) -> None:
        known = {field.alias for field in request.scope["route"].dependant.query_params}
        for name in request.query_params:
            if name not in known:
                raise unsupported(name)

    return check


def _version() -> str:
    from importlib.metadata import version

    return version("remask")


def _add_handlers(app: "FastAPI") -> None:
    """Let every error of the framework have our shape."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.requests import Request

    # Raised again, for the gate to tell: there is one place that does.
    @app.exception_handler(RequestValidationError)
    async def misfit(request: Request, error: RequestValidationError) -> None:
        listed = list(error.errors())
        told = dict(request.query_params) if listed[0]["loc"][0] == "query" else error.body
        raise invalid(listed, told) from None

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> None:
        if error.status_code == 400:  # the framework could not read the body
            raise no_object() from None
        told = {404: "there is no such route.", 405: "this route has other methods."}
        message = told.get(error.status_code, str(error.detail))
        raise Fault(error.status_code, message, headers=dict(error.headers or {})) from None


def _openapi(app: "FastAPI") -> dict[str, Any]:
    """Return the document, without the answer 422, which is a 400 here."""
    if app.openapi_schema is None:
        from fastapi.openapi.utils import get_openapi

        made = get_openapi(title=app.title, version=app.version, routes=app.routes)
        for path in made["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            made["components"]["schemas"].pop(name, None)
        app.openapi_schema = made
    return app.openapi_schema
