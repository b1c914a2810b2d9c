"""The other routes: models, examples, health, meters, the page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from remask.serve import response_models, schema
from remask.serve.errors import Fault
from remask.serve.routes import FAULTS, document
from remask.serve.service import Service
from remask.tasks import TASKS
from remask.tasks.base import Problem
from remask.tasks.flaws import KINDS, inject
from remask.tasks.settings import AnswerKind

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

PAGE = Path(__file__).parent / "page"
_PRESET = ("length", "steps", "block", "temperature", "resample_temperature", "threshold")
_DEFAULTS = ("trips", "rebuild_steps", "mask_ratio", "mask_design", "rebuild_temperature", "budget")


def model_routes(service: Service) -> "APIRouter":
    """Return what can be asked of whom."""
    from fastapi import APIRouter, Query
    from starlette.responses import Response

    router = APIRouter()

    @router.get(
        "/v1/models", response_class=Response, operation_id="models",
        responses={**FAULTS, 200: {"model": response_models.ModelList}},
    )  # fmt: skip
    async def models() -> Response:
        """List the model that is served."""
        return document({"object": "list", "data": [_model(service)]})

    # A hub id has a slash in it.
    @router.get(
        "/v1/models/{model:path}", response_class=Response, operation_id="model",
        responses={**FAULTS, 200: {"model": response_models.ModelShape}},
    )  # fmt: skip
    async def model(model: str) -> Response:
        """Tell about the model."""
        service.check_model(model)
        return document(_model(service))

    @router.get(
        "/v1/examples", response_class=Response, operation_id="examples",
        responses={**FAULTS, 200: {"model": response_models.ExampleList}},
    )  # fmt: skip
    def examples(
        task: schema.GeneratedTask | None = None,
        level: str = "",
        count: Annotated[int, Query(ge=1, le=schema.MAX_EXAMPLES)] = 3,
        seed: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    ) -> Response:
        """Return problems to try."""
        names = list(TASKS) if task is None else [task]
        found = [_example(n, level, seed + i) for n in names for i in range(count)]
        return document({"object": "list", "data": found})

    return router


def state_routes(service: Service) -> "APIRouter":
    """Return how the server is."""
    from fastapi import APIRouter
    from starlette.responses import Response

    router = APIRouter()

    @router.get(
        "/health", response_class=Response, operation_id="health",
        responses={**FAULTS, 200: {"model": response_models.Status}},
    )  # fmt: skip
    async def health() -> Response:
        """Say that the process answers."""
        return document({"status": "ok"})

    @router.get(
        "/ready", response_class=Response, operation_id="ready",
        responses={**FAULTS, 200: {"model": response_models.Status}},
    )  # fmt: skip
    async def ready() -> Response:
        """Say whether requests are taken."""
        if not service.batcher.ready:
            raise Fault(503, "no requests are taken; the server is going down.", code="not_ready")
        return document({"status": "ok"})

    @router.get(
        "/metrics", response_class=Response, operation_id="metrics",
        responses={**FAULTS, 200: {"content": {"text/plain": {}}}},
    )  # fmt: skip
    async def metrics() -> Response:
        """Return the meters, for Prometheus."""
        return Response(service.meters.text(), media_type="text/plain; version=0.0.4")

    return router


def add_page(app: "FastAPI") -> None:
    """Add the page: its own files and the web parts it shares with the report, nothing else."""
    from starlette.responses import FileResponse
    from starlette.staticfiles import StaticFiles

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", media_type="text/html")

    files = StaticFiles(directory=PAGE, packages=[("remask.report", "web")])
    app.mount("/static", files, name="static")


def _model(service: Service) -> dict[str, Any]:
    preset, usual = service.denoiser.preset, schema.SolveSettings()
    about = {
        "max_length": service.denoiser.max_length,
        "metrics": service.settings.metrics,
        "kinds": list(get_args(AnswerKind)),
        "tasks": {name: list(task.levels) for name, task in TASKS.items()},
        "preset": {name: getattr(preset, name) for name in _PRESET},
        "defaults": {name: getattr(usual, name) for name in _DEFAULTS},
        "limits": service.limits(),
    }
    return {
        "id": service.settings.model, "object": "model", "created": service.started,
        "owned_by": "remask", "remask": about,
    }  # fmt: skip


def _example(name: str, level: str, seed: int) -> dict[str, Any]:
    task = TASKS[name]
    problem = task.problem(seed, split="test", level=level)
    other = task.problem(seed + 1, split="test", level=level)
    texts = {"right": problem.solution, "flawed": _flawed(problem), "wrong": other.solution}
    answers = [{"label": label, "text": text} for label, text in texts.items() if text]
    return {
        "id": problem.id, "task": name, "level": problem.level, "seed": seed, "kind": name,
        "prompt": problem.prompt, "gold": problem.gold, "answers": answers,
    }  # fmt: skip


def _flawed(problem: Problem) -> str | None:
    """Return the right result with a wrong step, where the task has steps."""
    found = (inject(problem, problem.solution, kind) for kind in KINDS)
    return next((text for text in found if text is not None), None)
