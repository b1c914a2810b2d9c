"""About three hundred bad inputs: each is one sentence, an exit code, and nothing is written.

The files that they are tried on lie in one folder, which is compared before and after. What a case
says must stand in the sentence: the flag or field with its value, or the file with what is wrong.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Fails = Callable[..., str]
HUGE = "999999999999"
VERIFY = ("verify", "How many?", "12", "-m", "{model}", "--metrics", "core")
SOLVE = ("solve", "How many?", "-m", "{model}", "--metrics", "core")
SCORE = ("score", "in.jsonl", "-o", "new/out.jsonl", "-m", "{model}", "--metrics", "core")
COLLECT = (
    "collect", "--task", "wordmath", "-o", "new/out.jsonl", "-m", "{model}", "--metrics", "core",
)  # fmt: skip
ALIGN = ("align", "-m", "{model}", "--task", "countdown", "--out", "new", "--metrics", "core")
FIT, CERTIFY, CALIBRATE = (
    (name, "rec.jsonl", "-o", "new/out.json") for name in ("fit", "certify", "calibrate")
)
REPORT = ("report", "rec.jsonl", "-o", "new/page.html")
STUDY = ("study", "diagnosis", "rec.jsonl")
DEMO = ("demo", "--out", "new")

Case = tuple[tuple[str, ...], int, str]


def beyond() -> Iterator[Case]:
    """Numbers that no one can wait for, or that are none, for every flag that has a limit."""
    trips = ("--trips", "--rebuild-steps")
    flags = {
        SOLVE: (*trips, "--steps", "--length", "--block", "--budget"),
        VERIFY: trips,
        SCORE: (*trips, "--batch"),
        COLLECT: (*trips, "--steps", "--length", "--block", "--problems", "--samples"),
        CERTIFY: ("--budget",),
        DEMO: ("--problems", "--samples"),
    }
    for words, names in flags.items():
        for name in names:
            for value, limit in ((HUGE, "at most"), ("0", "at least 1")):
                yield (*words, name, value), 2, f"{name} must be {limit} ... got {value}"
            yield (*words, name, "many"), 2, f"{name} must be an integer ... got 'many'"
            yield (*words, name, "1.5"), 2, f"{name} must be an integer ... got 1.5"
            yield (*words, name, "9" * 310), 2, f"{name} must be at most ... got 99999"
    for words, name in ((SOLVE, "--temperature"), (VERIFY, "--rebuild-temperature")):
        for value in ("-1", "1e9", "nan"):
            yield (*words, name, value), 2, f"{name} must be ... got {value};"
    for words, name in ((COLLECT, "--scored"), (COLLECT, "--shots"), (COLLECT, "--workers")):
        yield (*words, name, HUGE), 2, f"{name} must be at most ... got {HUGE};"
        yield (*words, name, "-1"), 2, f"{name} must be at least ... got -1;"


def settings() -> Iterator[Case]:
    """The same for settings that are checked by their classes."""
    counts = ("updates", "prompts-per-update", "num-generations", "inner-updates", "micro-batch")
    for name in (*counts, "copies", "length", "steps", "block", "eval-problems"):
        field = name.replace("-", "_")
        for value in (HUGE, "-1"):
            wanted = f"{field} must be at ... got {value}."
            yield (*ALIGN, f"--{name}", value, "--dry-run"), 1, wanted
    for name in ("trips", "rebuild_steps"):
        flag = f"--{name.replace('_', '-')}"
        yield (*ALIGN, flag, HUGE, "--dry-run"), 1, f"{name} must be at most ... got {HUGE}."
    yield (
        (*ALIGN, "--reward", "outcom", "--dry-run"),
        1,
        "Unknown reward 'outcom'. Did you mean 'outcome'?",
    )
    yield (*ALIGN, "--reward", "zzz", "--dry-run"), 1, "Unknown reward 'zzz'. Known: consistency, "
    yield (*ALIGN, "--reward", "nosuch:f", "--dry-run"), 1, "reward 'nosuch:f' cannot be imported"
    yield (*ALIGN, "--set", "task=nope"), 2, "task is given by --task and by --set task=nope"
    yield (*ALIGN, "--set", "nope=1", "--dry-run"), 1, "Unknown setting 'nope'."
    yield (*ALIGN, "--set", "renyi=1", "--dry-run"), 1, "Did you mean 'renyi_order'?"
    yield (*ALIGN, "--set", "renyi_ordr=1", "--dry-run"), 1, "Did you mean 'renyi_order'?"
    yield (*ALIGN, "--set", "kl_weight=[", "--dry-run"), 2, "has a value that is not valid YAML"
    yield (
        (*ALIGN, "--set", "kl_weight=2026-13-45", "--dry-run"),
        2,
        "a value that is not valid YAML",
    )
    for config, said in (("utf16", "is UTF-16"), ("list", "got a list"), ("binary", "is not valid"),
                         ("folder", ": Is a directory")):  # fmt: skip
        yield (*ALIGN, "--config", config, "--dry-run"), 1, f"{config} ... {said}"


def outputs() -> Iterator[Case]:
    """Outputs that are inputs, exist, or can be no files."""
    commands = {FIT: "rec.jsonl", CERTIFY: "rec.jsonl", CALIBRATE: "rec.jsonl",
                REPORT: "rec.jsonl", SCORE: "in.jsonl"}  # fmt: skip
    for words, source in commands.items():
        read = (source, f"./{source}", f"folder/../{source}", f"{source}.link", f"{source}.twin")
        for out in read if words is not SCORE else read[:3]:
            for force in ((), ("--force",)):
                yield (*words, "-o", out, *force), 1, "is read by this command"
        there = "there.jsonl" if words is SCORE else "there.json"
        yield (*words, "-o", there), 1, f"{there} exists already; choose another file, or add --f"
        for folder in ("dir.jsonl", ".", "..", "/"):
            yield (*words, "-o", folder, "--force"), 1, f"{folder} is a folder; name a file"
        yield (*words, "-o", f"{there}/x.jsonl"), 1, f"{there} is not a folder"
    for words in (FIT, CERTIFY, CALIBRATE, REPORT):
        yield (*words, "-o", "rec.jsonl.manifest.json", "--force"), 1, "is read by this command"
    for words in (CERTIFY, CALIBRATE):
        again = (*words, "--weights", "weights.json", "-o", "weights.json", "--force")
        yield again, 1, "weights.json is read by this command"
    yield ("report", ".", "-o", "other/few.jsonl", "--force"), 1, "is read by this command"
    yield (*REPORT, "-o", "made/page.html", "--plots"), 1, "exists already; choose another folder"
    yield (*STUDY, "--out", "made"), 1, "diagnosis.md exists already; choose another folder"
    yield (*STUDY, "--out", "made/."), 1, "diagnosis.md exists already; choose another folder"
    yield (*STUDY, "--out", "there.json", "--force"), 1, "there.json is a file; name a folder"
    yield (*COLLECT, "-o", "in.jsonl"), 1, "in.jsonl has no manifest in.jsonl.manifest.json beside"
    for folder in ("folder", ".", ".."):
        yield (*COLLECT, "-o", folder), 1, f"{folder} is a folder; name a file"
    rows = ("collect", "--task", "gsm8k", "--data", "test.jsonl", "-m", "{model}")
    yield (*rows, "-o", "test.jsonl"), 1, "test.jsonl is read by this command"
    yield (*DEMO, "--out", "folder"), 1, "folder holds note.txt, which is not of this run"
    yield (*ALIGN, "--out", "folder"), 1, "folder holds note.txt, which is not of this run"
    yield (*ALIGN, "--out", "{model}"), 1, "is read by this command"
    yield (*SCORE, "-o", "mine.jsonl"), 1, "mine.jsonl.part has no manifest. Move it, or"


DAMAGES = {  # by the name of a file: what a sentence says of it
    "empty": "empty is damaged: it is empty",
    "list": "list is damaged: it is not a JSON object",
    "cut": "cut is damaged: it is not valid JSON",
    "nan": "nan is damaged: it is not valid JSON (NaN is not valid in JSON)",
    "binary": "binary is not valid UTF-8",
    "utf16": "utf16 is UTF-16, not UTF-8; re-encode it",
    "folder": "folder: Is a directory",
    "missing": "missing: No such file or directory",
    "keyless": "keyless is damaged: it has no kind; fit it again",
}


MISFITS: list[tuple[str, Any]] = [  # fields of a record with a value of another type
    ("id", 3), ("number", "0"), ("right", "yes"), ("scores", []), ("answer", 12),
    ("scores", {"confidence": "high"}), ("by_trip", {"confidence": 1}),
]  # fmt: skip


def damaged() -> Iterator[Case]:
    """Files that are cut, foreign or of another kind, for every command that reads one."""
    for name, sentence in DAMAGES.items():
        for words in (CERTIFY, CALIBRATE, VERIFY, SOLVE, SCORE):
            yield (*words, "--weights", name), 1, sentence
        for words in (VERIFY, SOLVE, SCORE):
            yield (*words, "--certificate", name), 1, sentence
    for words in (VERIFY, SCORE):
        yield (
            (*words, "--weights", "certificate.json"),
            1,
            "is a file of kind 'certificate', not 'weights'",
        )
        yield (
            (*words, "--certificate", "weights.json"),
            1,
            "is a file of kind 'weights', not 'certificate'",
        )
    for words in (FIT, REPORT, STUDY):
        read = words.index("rec.jsonl")
        for name, sentence in (
            ("cut.jsonl", "cut.jsonl line 1 is not valid JSON"),
            ("list.jsonl", "list.jsonl is a JSON array"),
            ("utf16.jsonl", "utf16.jsonl is UTF-16, not UTF-8"),
            ("empty.jsonl", "holds no records"),
            ("nosuch.jsonl", "nosuch.jsonl"),
        ):
            yield (*words[:read], name, *words[read + 1 :]), 1, sentence
    for field, value in MISFITS:
        name = wrong_name(field, value)
        for words in (FIT, REPORT, STUDY):
            read = words.index("rec.jsonl")
            sentence = f"{name} is damaged: line 1 has {field}"
            yield (*words[:read], name, *words[read + 1 :]), 1, sentence
    for name, sentence in (
        ("unasked.jsonl", "unasked.jsonl.manifest.json is damaged: it has no asked"),
        ("odd.jsonl", "odd.jsonl.manifest.json is damaged: runs is 3"),
        ("cutnote.jsonl", "cutnote.jsonl.manifest.json is damaged: it is not valid JSON"),
    ):
        yield ("fit", name, "-o", "new/out.json"), 1, sentence
        yield ("study", "cost", name), 1, sentence
    yield ("calibrate", "few.jsonl", "-o", "new/out.json"), 1, "few.jsonl holds 3 wrong answers"


def misuse() -> Iterator[Case]:
    """What cannot be meant."""
    for words in (SOLVE, VERIFY):
        yield (*words, "--shots", "3"), 2, "--shots 3 belongs to --task; leave it out beside"
        yield (*words, "--level", "hard"), 2, "--level hard belongs to --task"
        yield (*words, "--data", "in.jsonl"), 2, "--data in.jsonl belongs to --task"
    for text in ("{long}",):
        yield ("verify", text, "12", *VERIFY[3:]), 1, "the prompt has 200,000 characters, which"
        yield ("verify", "a", text, *VERIFY[3:]), 1, "the answer has 200,000 characters, which"
        words = ("solve", text, *SOLVE[2:], "--budget", "1", "--threshold", "0.75")
        yield words, 1, "the prompt has 200,000 characters"
    yield ("models", "someone/else"), 1, "Unknown model 'someone/else'"
    yield ("doctor", "tiny", "--no-device"), 2, "leave --no-device out"
    yield ("doctor", "nowhere"), 1, "model 'nowhere' is neither"
    yield ("serve", "-m", "{model}", "--key-file", "binary"), 1, "binary is not valid UTF-8"
    yield ("serve", "-m", "{model}", "--key-file", "missing"), 1, "missing: No such file"
    yield ("serve", "-m", "{model}", "--max-queue", "0"), 2, "--max-queue"
    yield (
        ("serve", "-m", "{model}", "--scorer", "editr"),
        1,
        "Unknown scorer 'editr'. Did you mean 'editor'?",
    )
    words = ("serve", "-m", "{model}", "--scorer", "editor", "--metrics", "core")
    yield words, 2, "--metrics belongs to round trips, not to --scorer editor"
    yield (*VERIFY[:2], "--answer-file", "utf16", *VERIFY[3:]), 1, "utf16 is UTF-16, not UTF-8"
    yield ("score", "utf16.jsonl", *SCORE[2:]), 1, "utf16.jsonl is UTF-16, not UTF-8"


def wrong_name(field: str, value: Any) -> str:
    return f"{field}-{type(value).__name__}-{len(str(value))}.jsonl"


def record(number: int, right: bool) -> dict[str, Any]:
    score = 0.9 if right else 0.4
    names = (
        "token_accuracy", "number_retention", "answer_match", "character_similarity", "confidence",
    )  # fmt: skip
    return {
        "id": f"wordmath/easy/test/0/{number}", "task": "wordmath", "level": "easy", "number": 0,
        "prompt": "Ben has 12 pens.", "gold": "12", "text": "#### 12", "answer": "12",
        "right": right, "process_ok": right, "forwards": 4, "verify_forwards": 8,
        "scores": {"confidence": 0.9, "roundtrips": score},
        "by_trip": {name: [score, score] for name in names},
    }  # fmt: skip


ASKED = {
    "task": "wordmath", "model": "tiny", "level": "easy", "split": "test", "seed": 0,
    "metrics": "core", "samples": 1, "sampler": {"steps": 4},
    "consistency": {"trips": 2, "rebuild_steps": 4},
}  # fmt: skip


def write_records(path: Path, rows: list[dict[str, Any]], note: Any = None) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = note if isinstance(note, str) else json.dumps(note or {"asked": ASKED, "runs": []})
    Path(f"{path}.manifest.json").write_text(text)


def fitted(kind: str) -> dict[str, Any]:
    about = {
        "metric_set": "core", "metrics": list(record(0, True)["by_trip"]), "task": "wordmath",
        "model": "tiny", "split": "validation", "seed": 0, "version": "0", "date": "today",
    }  # fmt: skip
    own: dict[str, Any] = {"values": dict.fromkeys(about["metrics"], 0.2), "n": 9}
    own |= {"auroc": 0.9, "auroc_uniform": 0.9}
    if kind == "certificate":
        own = {"threshold": 0.5, "risk": 0.1, "confidence": 0.9, "n": 9, "accepted": 9, "wrong": 0}
    return {"kind": kind, **own, "provenance": about}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all cases share, because none of them may change it."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "in.jsonl").write_text('{"prompt": "a", "answer": "b"}\n')
    (folder / "test.jsonl").write_text('{"question": "a", "answer": "#### 1"}\n')
    rows = [record(k, k % 2 == 0) for k in range(40)]
    write_records(folder / "rec.jsonl", rows)
    write_records(folder / "few.jsonl", [record(k, k > 2) for k in range(40)])
    write_records(folder / "empty.jsonl", [])
    write_records(folder / "unasked.jsonl", rows, {"asked": 3})
    write_records(folder / "odd.jsonl", rows, {"asked": ASKED, "runs": 3})
    write_records(folder / "cutnote.jsonl", rows, "{")
    for field, value in MISFITS:
        write_records(folder / wrong_name(field, value), [{**rows[0], field: value}, *rows[1:]])
    for kind in ("weights", "certificate"):
        (folder / f"{kind}.json").write_text(json.dumps(fitted(kind)))
    (folder / "mine.jsonl.part").write_text("my own notes")
    for name in ("there.json", "there.jsonl"):
        (folder / name).write_text("{}\n")
    for name, content in (
        ("empty", b""), ("list", b"[1]\n"), ("cut", b'{"kind": "wei'), ("nan", b'{"kind": NaN}'),
        ("binary", b"\x80\x81"), ("utf16", "{}\n".encode("utf-16")), ("keyless", b"{}"),
    ):  # fmt: skip
        (folder / name).write_bytes(content)
        if name in ("list", "cut", "utf16"):
            (folder / f"{name}.jsonl").write_bytes(content)
    for name in ("folder", "dir.jsonl", "made/page-plots", "other"):
        (folder / name).mkdir(parents=True)
    (folder / "folder" / "note.txt").touch()
    (folder / "made" / "diagnosis.md").touch()
    (folder / "made" / "page-plots" / "a.svg").touch()
    shutil.copy(folder / "rec.jsonl", folder / "other" / "few.jsonl")
    for name in ("in.jsonl", "rec.jsonl"):
        (folder / f"{name}.link").symlink_to(folder / name)
        os.link(folder / name, folder / f"{name}.twin")
    return folder


def state(folder: Path) -> dict[str, bytes | None]:
    return {str(p): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


CASES = [*beyond(), *settings(), *outputs(), *damaged(), *misuse()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case[0])[:80])
def test_it_is_one_sentence_and_nothing_is_written(
    case: Case, place: Path, model: str, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, code, sentence = case
    monkeypatch.chdir(place)
    before = state(place)
    long = "a" * 200_000
    given = [word.replace("{model}", model).replace("{long}", long) for word in words]
    said = fails(code, *given)
    assert [part for part in sentence.split(" ... ") if part not in said] == []
    assert state(place) == before


def test_there_are_as_many_as_a_person_would_try() -> None:
    assert len(CASES) > 250
