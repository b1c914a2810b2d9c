"""`--weights int8` and `nf4`: a model in few bits, and what belongs to one precision."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remask.analysis.fitting import read_evidence
from remask.decide.threshold import Certificate
from remask.tasks import TASKS

Run = Callable[..., Any]  # see conftest.py
Fails = Callable[..., str]
PROMPT, ANSWER = "What is 2 + 3?", "It is 5."
CORE = tuple(name for name in TASKS["wordmath"].metrics if name != "semantic_similarity")


@pytest.mark.parametrize("weights", ["int8", "nf4"])
def test_a_packed_model_verifies_and_says_so(run: Run, fast: tuple[str, ...], weights: str) -> None:
    words = ("verify", *fast, PROMPT, ANSWER, "--json")
    full, packed = (json.loads(run(*words, *more).out) for more in ((), ("--weights", weights)))
    assert "packed_as" not in full
    assert packed["packed_as"] == weights
    assert packed["score"] != full["score"]


def test_one_flag_for_two_kinds_of_weights(
    run: Run, fails: Fails, fast: tuple[str, ...], tmp_path: Path
) -> None:
    words = ("verify", *fast, PROMPT, ANSWER)
    said = fails(1, *words, "--weights", "nf5")
    assert said.startswith("--weights is none of full, int8, nf4, fp8, nor a file that fit wrote: ")
    assert "cannot use nf5" in said
    said = fails(2, *words, "--weights", "nf4", "--weights", "int8")
    assert said.startswith("--weights nf4 --weights int8 is more than one format of the model's")
    assert "other.json" in fails(1, *words, "--weights", "int8", "--weights", "other.json")
    said = fails(1, *words, "--weights", "fp8")
    assert "weights 'fp8'" in said
    assert "use int8" in said
    said = fails(2, "collect", *fast, "--task", "wordmath", "-o", tmp_path / "x", "--weights", "w")
    assert "--weights" in said


def test_answers_of_two_precisions_are_never_mixed(
    run: Run, fails: Fails, fast: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "records.jsonl"
    words = (
        "collect", *fast, "--task", "wordmath", "--problems", "1", "--steps", "2", "--scored", "0",
        "--device", "cpu", "-o", out,
    )  # fmt: skip
    assert run(*words, "--weights", "int8").code == 0
    manifest = json.loads(Path(f"{out}.manifest.json").read_text())
    assert manifest["model"]["dtype"] == "int8/float32"
    more = ("--problems", "2")
    said = fails(1, *words, *more)
    assert "dtype of the model was int8/float32, got float32" in said
    assert "got nf4/float32" in fails(1, *words, *more, "--weights", "nf4")
    assert run(*words, *more, "--weights", "int8").code == 0


def test_a_certificate_holds_at_the_precision_it_was_made_at(
    run: Run, fails: Fails, fast: tuple[str, ...], tmp_path: Path
) -> None:
    out, certificate = tmp_path / "records.jsonl", tmp_path / "certificate.json"
    words = (*fast, "--task", "wordmath", "--level", "easy", "--length", "16", "--steps", "2")
    at_int8 = ("--weights", "int8")
    assert run("collect", "-o", out, *words, "--problems", "1", *at_int8).code == 0
    about = replace(read_evidence(out).provenance("core", CORE), weights=None)
    Certificate(
        threshold=0.25, risk=0.1, confidence=0.95, n=50, accepted=44, wrong=0, provenance=about
    ).save(certificate)
    asked = ("verify", "Two and two?", "2+2=4. #### 4", "--own", *fast)
    asked += ("--certificate", str(certificate))
    assert "promise" in json.loads(run(*asked, *at_int8, "--json").out)
    said = fails(1, *asked)
    assert "certified for dtype int8/float32, got float32" in said
    source, scored = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps({"prompt": "Two and two?", "answer": "2+2=4. #### 4"}) + "\n")
    words = ("score", source, "-o", scored, "--own", *fast, "--certificate", certificate)
    assert "dtype int8/float32, got nf4/float32" in fails(1, *words, "--weights", "nf4")
    assert run(*words, *at_int8).code == 0


CHILD = """
import sys
from remask.cli import main
for words in {commands!r}:
    sys.argv = ["remask", *words]
    try:
        main()
    except SystemExit as left:
        assert not left.code
    names = {{"sentence_transformers", "peft", "torchao", "bitsandbytes"}}
    print(words[0], "loaded", sorted(names & {{*sys.modules}}))
"""


def test_packages_that_pack_are_not_loaded_where_nothing_is_packed(
    model: str, tmp_path: Path
) -> None:
    """In a process of its own: transformers and peft would import both, and both would speak."""
    verify = ("verify", PROMPT, ANSWER, "--model", model, "--trips", "1", "--json")
    align = (
        "align", "--model", model, "--task", "countdown", "--out", str(tmp_path / "out"),
        "--tuning", "lora", "--reward", "outcome", "--updates", "1", "--prompts-per-update", "1",
        "--num-generations", "2", "--inner-updates", "1", "--length", "16", "--steps", "1",
        "--block", "16", "--eval-problems", "1", "--device", "cpu", "--set", "show_every=0",
        "--track", "none", "--json",
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(commands=[verify, align])],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    heard = [line for line in done.stderr.splitlines() if "curves drawn in" not in line]
    assert (done.returncode, heard) == (0, [])
    lines = done.stdout.splitlines()
    assert "semantic_similarity" in lines[0]  # so that transformers was there
    assert [line for line in lines if " loaded " in line] == [
        "verify loaded ['peft', 'sentence_transformers']",
        "align loaded ['peft', 'sentence_transformers']",
    ]
