"""The other routes: models, queue, examples, health, metrics, and the page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from starlette.responses import FileResponse, PlainTextResponse
from starlette.responses import Response as HttpResponse
from starlette.staticfiles import StaticFiles

from remask.denoisers.native import dtype_of
from remask.serve.errors import ApiError
from remask.serve.examples import ExampleList, example_list
from remask.serve.inputs import check_model, most_tokens, naming, preset_threshold, scorers
from remask.serve.requests import GeneratedTask, SolveSettings
from remask.serve.responses import Response
from remask.serve.routes import json_response, system_place
from remask.serve.service import Service
from remask.serve.settings import MAX_BUDGET, MAX_EXAMPLES, MAX_REBUILD_STEPS, MAX_TRIPS
from remask.settings import Setting
from remask.tasks import TASKS
from remask.tasks.settings import AnswerKind

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

PAGE = Path(__file__).parent / "page"
_PRESET = ("length", "steps", "block", "temperature", "resample_temperature")
_DEFAULTS = ("trips", "rebuild_steps", "mask_ratio", "mask_design", "rebuild_temperature", "budget")


class ServedModel(Response):
    """The served model, with its defaults and limits."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    remask: dict[str, Any]


class ModelList(Response):
    """The list of the served model."""

    object: Literal["list"]
    data: list[ServedModel]


class QueueState(Response):
    """Length of the queue, and the place of one request."""

    object: Literal["remask.queue"]
    requests: int  # running and waiting
    ahead: int | None  # requests before the named one


class ServerStatus(Response):
    """State of the server."""

    status: Literal["ok"]


def add_model_routes(router: "APIRouter", service: Service) -> None:
    @router.get("/v1/models", response_model=ModelList)
    async def models() -> HttpResponse:
        """List the model that is served."""
        return json_response(ModelList(object="list", data=[_model(service)]))

    # Hub ids contain a slash.
    @router.get("/v1/models/{model:path}", response_model=ServedModel)
    async def model(model: str) -> HttpResponse:
        """Describe the model."""
        check_model(service, model)
        return json_response(_model(service))

    @router.get("/v1/queue", response_model=QueueState)
    async def queue(name: str = "") -> HttpResponse:
        """Return the length of the queue, and the place of a request by its x-client-request-id."""
        ahead = service.batcher.ahead(name) if name else None
        state = QueueState(object="remask.queue", requests=service.batcher.num_jobs, ahead=ahead)
        return json_response(state)

    @router.get("/v1/examples", response_model=ExampleList)
    def examples(
        task: GeneratedTask | None = None,
        level: str = "",
        count: Annotated[int, Setting(least=1, most=MAX_EXAMPLES)] = 3,
        seed: Annotated[int, Setting(least=0, below=2**31)] | None = None,
    ) -> HttpResponse:
        """Return example problems, from number `seed` on if it is given."""
        names = list(TASKS) if task is None else [task]
        with naming("level"):
            return json_response(example_list(names, level, count, seed))


def add_state_routes(router: "APIRouter", service: Service) -> None:
    well = ServerStatus(status="ok")

    @router.get("/health", response_model=ServerStatus)
    async def health() -> HttpResponse:
        """Return 200 while the process runs."""
        return json_response(well)

    @router.get("/ready", response_model=ServerStatus)
    async def ready() -> HttpResponse:
        """Return 200 while requests are accepted, else 503."""
        if not service.batcher.ready:
            raise ApiError(503, "The server is shutting down.", code="not_ready")
        return json_response(well)

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> HttpResponse:
        """Return the metrics in Prometheus' text format."""
        return HttpResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")


def add_page(app: "FastAPI") -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", media_type="text/html")

    files = StaticFiles(directory=PAGE, packages=[("remask.report", "web")])
    app.mount("/static", files, name="static")


def _model(service: Service) -> ServedModel:
    preset, usual, settings = service.denoiser.preset, SolveSettings(), service.settings
    limits = {
        "body_bytes": settings.body_bytes,
        "max_tokens": most_tokens(service),
        "trips": MAX_TRIPS,
        "rebuild_steps": MAX_REBUILD_STEPS,
        "budget": MAX_BUDGET,
        "queue": settings.max_queue,
        "seconds": settings.seconds,
    }
    details = {
        "precision": dtype_of(service.denoiser),  # null for custom models
        "max_length": service.denoiser.max_length,
        "system": system_place(service),
        "scorer": settings.scorer,
        "scorers": list(scorers(service)),
        "metrics": settings.metrics,
        "kinds": list(get_args(AnswerKind)),
        "tasks": {name: list(task.levels) for name, task in TASKS.items()},
        "preset": {name: getattr(preset, name) for name in _PRESET}
        | {"threshold": preset_threshold(service)},
        "defaults": {name: getattr(usual, name) for name in _DEFAULTS},
        "limits": limits,
    }
    return ServedModel(
        id=settings.model,
        object="model",
        created=service.started,
        owned_by="remask",
        remask=details,
    )
