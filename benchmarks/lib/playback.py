"""A server that plays documents back: the page without a model, in the shapes of docs/server.md.

The tests in a browser and the benchmark of the page use it where they need an answer of their own
making, or a server that dies in the middle of it.
"""

import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from remask.tasks.base import PIECES
from remask.values import Score

SOURCE = Path(__file__).resolve().parents[2] / "src" / "remask"
FOLDERS = (SOURCE / "serve" / "page", SOURCE / "report" / "web")  # the page, and what it shares
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES = {
    ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
}  # fmt: skip
TASKS = {
    "wordmath": ["easy", "hard"], "countdown": ["easy"], "choice": ["easy"], "pycode": ["easy"],
}  # fmt: skip
THRESHOLD = 0.75
LIMIT = 300.0  # seconds that only a defect takes
Document = dict[str, Any]


def verification(
    pieces: Sequence[str], *, lost: float, trips: int = 4, sure: bool = True, seed: int = 0
) -> Document:
    """Return the document of an answer of which the trips lose a share of the tokens."""
    rng = random.Random(seed)
    drifting = [rng.random() < 2 * lost for _ in pieces]
    made = [_trip(pieces, drifting, rng) for _ in range(trips)]
    drift = [_drift(k, pieces[k], made) for k in range(len(pieces))]
    score = round(1 - sum(d or 0 for d in drift) / max(1, len(drift)), 3)
    names = ("token_accuracy", "edit_similarity", "answer_match", "semantic_similarity")
    metrics = {
        name: {"value": score, "weight": 1 / len(names), "by_trip": [score] * trips}
        for name in names
    }
    verdict = Score(value=score, stderr=0.021).verdict(THRESHOLD)
    return {
        "id": "ver-0", "object": "remask.verification", "model": "tiny", "item": "prompt/0",
        "text": "".join(pieces), "extracted": "17", "score": score, "stderr": 0.021,
        "scorer": "roundtrips", "threshold": THRESHOLD, "threshold_source": "preset",
        "threshold_reason": "", "verdict": verdict,
        "accepted": {"trust": True, "doubt": False}.get(verdict),
        "reason": "", "metrics": metrics,
        "tokens": [
            {"text": text, "drift": lost, "special": False,
             "confidence": round(rng.uniform(0.4, 1) ** 0.3, 3) if sure else None}
            for text, lost in zip(pieces, drift, strict=True)
        ],
        "trips": made, "cost": {"forwards": 16 * trips, "seconds": 0.4}, "settings": {},
        "graded": None, "command": "remask verify --model tiny 'a prompt' 'an answer'",
    }  # fmt: skip


def _trip(pieces: Sequence[str], drifting: Sequence[bool], rng: random.Random) -> Document:
    masked = [rng.random() < 0.9 for _ in pieces]
    changed = [drifts and rng.random() < 0.6 for drifts in drifting]
    rebuilt = [
        rng.choice([" 19", " more", " apples"]) if hidden and moved else text
        for text, hidden, moved in zip(pieces, masked, changed, strict=True)
    ]
    return {
        "text": "".join(rebuilt), "masked": masked, "rebuilt": rebuilt,
        "steps": [rng.randrange(16) if hidden else None for hidden in masked],
        "original": [0.5 if hidden else None for hidden in masked],
    }  # fmt: skip


def _drift(place: int, text: str, trips: Sequence[Document]) -> float | None:
    seen = [trip["rebuilt"][place] != text for trip in trips if trip["masked"][place]]
    return sum(seen) / len(seen) if seen else None


def pieces(text: str) -> list[str]:
    """Return a text cut as the embedded tokenizer would."""
    return re.findall(PIECES, text)


def solution(answers: Sequence[Document]) -> Iterator[tuple[str, Document]]:
    """Yield the events of a race that the first answer above the threshold wins."""
    best = max(
        range(len(answers)), key=lambda k: (bool(answers[k]["accepted"]), answers[k]["score"])
    )
    for number, answer in enumerate(answers):
        tokens = [t["text"] for t in answer["tokens"]]
        for cut in range(16, len(tokens) + 16, max(16, len(tokens) // 4)):
            text = "".join(tokens[:cut])
            yield "block", {"number": number, "text": text, "finished": cut >= len(tokens)}
        yield "attempt", {
            "number": number, "text": answer["text"], "extracted": answer["extracted"],
            "tokens": [], "confidence": 0.9, "finish_reason": "stop", "forwards": 80,
        }  # fmt: skip
        yield "verification", {**answer, "number": number, "command": None}
    won = answers[best]["accepted"]
    yield "decision", {
        "id": "sol-0", "object": "remask.solution", "action": "accept" if won else "fallback",
        "accepted": best if won else None, "number": best, "reason": "none scored above 0.75",
        "num_attempts": len(answers), "cost": {"forwards": 288, "seconds": 1.9},
        "command": "remask solve --model tiny 'a prompt'",
    }  # fmt: skip


def example(task: str, level: str, seed: int) -> Document:
    """Return a problem to try."""
    return {
        "id": f"{task}/{level}/test/0/{seed}", "task": task, "level": level, "seed": seed,
        "kind": task, "prompt": f"{task} {level} {seed}: Ben has 12 apples. How many has Zoe?",
        "gold": "17",
        "answers": [
            {"label": "right", "text": "12 + 5 = 17. The answer is 17."},
            {"label": "wrong", "text": "12 + 7 = 19. The answer is 19."},
        ],
    }  # fmt: skip


MODEL: Document = {
    "id": "tiny", "object": "model", "created": 0, "owned_by": "remask",
    "remask": {
        "max_length": 512, "scorer": "roundtrips", "scorers": ["roundtrips", "verifier", "editor"],
        "metrics": "core",
        "kinds": ["number", "text", *TASKS], "tasks": TASKS,
        "preset": {"length": 80, "steps": 80, "block": 16, "temperature": 1, "threshold": 0.75},
        "defaults": {"trips": 4, "rebuild_steps": 16, "mask_ratio": 0.9, "budget": 10},
        "limits": {"trips": 64, "rebuild_steps": 256, "budget": 32, "max_tokens": 4096},
    },
}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: "Playback"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def end_headers(self) -> None:
        """End them; no connection outlives its answer, so that a stopped server is gone at once."""
        self.send_header("Connection", "close")
        super().end_headers()

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/v1/models":
            self._send(200, {"object": "list", "data": [MODEL]})
        elif path == "/v1/queue":
            self.server.places.append(query)
            self._send(200, {"object": "remask.queue", **self.server.queue})
        elif path == "/v1/examples":
            asked = dict(part.split("=") for part in query.split("&"))
            time.sleep(self.server.pause if asked["level"] == "easy" else 0)
            first, count = int(asked.get("seed", 0)), int(asked["count"])
            found = [example(asked["task"], asked["level"], first + k) for k in range(count)]
            try:
                self._send(200, {"object": "list", "data": found})
            finally:
                self.server.listed.append(f"{asked['task']} {asked['level']}")
        else:
            self._file("index.html" if path == "/" else path.removeprefix("/static/"))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.server.names.append(self.headers["X-Client-Request-Id"])
        if self.server.refusal is not None:
            status, message = self.server.refusal
            self._send(status, {"error": {"message": message, "type": "server_error"}})
        elif self.path == "/v1/verify":
            if self.server.hold_after == 0:
                self.server.go_on.wait(LIMIT)
            self._send(200, self.server.answers[0] | {"text": body["answer"]})
        else:
            self._stream()

    def _send(self, status: int, content: Document) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _file(self, name: str) -> None:
        paths = [folder / name for folder in FOLDERS]
        file = next((p for p in paths if p.parent in FOLDERS and p.is_file()), None)
        if file is None:
            self._send(404, {"error": {"message": "no such file"}})
            return
        self.send_response(200)
        self.send_header("Content-Type", f"{TYPES[file.suffix]}; charset=utf-8")
        self.send_header("Content-Security-Policy", POLICY)
        data = file.read_bytes()
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, (name, data) in enumerate(solution(self.server.answers)):
            if number == self.server.die_after and self.server.polite:
                break
            if number == self.server.die_after:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if number == self.server.fail_after:
                name, data = "error", {"error": {"message": "the model gave no numbers."}}
            if number == self.server.hold_after:
                self.server.go_on.wait(LIMIT)
            self._chunk(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
            time.sleep(self.server.pause)
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


class Playback(ThreadingHTTPServer):
    """The server; what it answers can be changed between requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.reset()

    def reset(self) -> None:
        """Forget what was asked and how to answer."""
        self.answers: list[Document] = []  # of /v1/solve; the first of them of /v1/verify
        self.die_after: int | None = None  # events of a stream, then the connection breaks
        self.polite = False  # end such a stream in order, only too early
        self.fail_after: int | None = None  # events of a stream, then it tells an error
        self.refusal: tuple[int, str] | None = None  # status and sentence of the next requests
        self.hold_after: int | None = None  # events, then it waits for `go_on`
        self.go_on = threading.Event()
        self.listed: list[str] = []  # task and level of examples that were sent
        self.pause = 0.0  # seconds between two events, and before easy examples
        self.bodies: list[Document] = []  # what was asked
        self.names: list[str | None] = []  # what the requests are called in the queue
        self.queue: Document = {"requests": 1, "ahead": 0}
        self.places: list[str] = []  # queries for a place in it

    def __enter__(self) -> "Playback":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that left."""

    def stop(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()
