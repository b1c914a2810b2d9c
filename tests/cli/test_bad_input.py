"""A user's mistake is one sentence and an exit code: 2 for usage, 1 for failure."""

import bz2
import errno
import gzip
import json
import lzma
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from remask import cli
from remask.cli import answers

Fails = Callable[..., str]
Fast = tuple[str, ...]
NOISE = "".join(chr(0x100 + 37 * i % 0xD000) for i in range(400_000))  # 1 MB in UTF-8


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["solve", "--foo"], "Unknown option --foo"),
        (["sovle"], "No such command 'sovle'"),
        (["solve", "hi"], "no model is named: add --model tiny"),
        (["verify", "hi", "there"], "no model is named: add --model tiny"),
        (["score", "in.jsonl", "-o", "out.jsonl"], "no model is named"),
        (["collect", "--task", "choice", "-o", "out.jsonl"], "no model is named"),
        (["score", "in.jsonl", "-m", "tiny"], "Missing option '--out'"),
        (["solve", "-m", "tiny"], "give either a PROMPT or --task"),
        (["solve", "hi", "--task", "choice", "-m", "tiny"], "give either a PROMPT or --task"),
        (["verify", "hi", "-m", "tiny"], "give the answer once"),
        (["verify", "hi", "a", "--answer", "b", "-m", "tiny"], "give the answer once"),
        (["solve", "hi", "-m", "tiny", "--steps", "many"], "--steps"),
        (["solve", "hi", "-m", "tiny", "--steps", "0"], "--steps"),
        (
            ["verify", "hi", "12", "-m", "tiny", "--trips", "0"],
            "--trips must be at least 1, got 0",
        ),
        (["solve", "hi", "-m", "tiny", "--metrics", "best"], "Unknown metric 'best'"),
        (["solve", "hi", "-m", "tiny", "--kind", "poem"], "--kind"),
        (["solve", "hi", "-m", "tiny", "--mask-ratio", "most"], "or uniform, got 'most'"),
        (["solve", "hi", "-m", "tiny", "--mask-ratio", "2"], "--mask-ratio must be at most 1 or"),
    ],
)
def test_misuse_is_one_sentence_and_exit_code_2(
    words: list[str], sentence: str, fails: Fails
) -> None:
    said = fails(2, *words)
    assert sentence in said
    assert said.endswith("--help.")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["solve", "", "--threshold", "0.75", "--budget", "1"], "the prompt is empty"),
        (["solve", " \n", "--threshold", "0.75", "--budget", "1"], "the prompt is empty"),
        (["verify", "", "12"], "the prompt is empty"),
        (["verify", "How many?", ""], "the answer is empty"),
        (["verify", "How many?", "12 " * 400], "more than the 1024"),
        (["verify", "How many?", "x<|mdm_mask|>"], "the answer contains the mask token"),
        (["verify", "a<|mdm_mask|>b", "12"], "the prompt contains the mask token"),
        (["verify", "How many?", "12<|eot_id|>"], "the answer contains the special token"),
        (["verify", "How many?", NOISE], "more than the 1024"),
        (["verify", NOISE, "12"], "more than the 1024"),
        (["verify", "How many?", "\udcff"], "the answer is not valid unicode"),
        (["verify", "--task", "chess", "--answer", "12"], "Unknown task 'chess'"),
        (
            ["verify", "--task", "choice", "--level", "x", "--answer", "A"],
            "Unknown level of choice 'x'",
        ),
        (["verify", "How many?", "--answer-file", "missing.txt"], "cannot use missing.txt"),
        (["verify", "How many?", "--answer-file", "."], "cannot use .: Is a directory"),
        (["verify", "How many?", "12", "--device", "tpu7"], "Unknown device 'tpu7'"),
    ],
)
def test_unusable_input_is_one_sentence_and_exit_code_1(
    words: list[str], sentence: str, fails: Fails, fast: Fast
) -> None:
    assert sentence in fails(1, words[0], *fast, *words[1:])


def test_stdin_that_is_no_text_is_refused(fails: Fails, fast: Fast) -> None:
    said = fails(1, "verify", "How many?", "-", *fast, stdin=b"12 \xff")
    assert "standard input is not valid UTF-8" in said


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_threshold_is_a_number(fails: Fails, fast: Fast, value: str) -> None:
    said = fails(2, "verify", "How many?", "12", *fast, "--threshold", value, "--json")
    assert "--threshold must be a" in said
    assert f"number, got {value};" in said


def test_a_full_disk_is_told_without_a_file_name(
    monkeypatch: pytest.MonkeyPatch, fails: Fails, fast: Fast
) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(answers, "load_model", fill)
    assert fails(1, "verify", "How many?", "12", *fast) == "No space left on device."


@pytest.mark.parametrize("value", ["0", "0.0", "-0.0"])
def test_temperature_0_with_several_samples_is_refused_before_loading(
    fails: Fails, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("it looked for a model")
    )
    told = "--temperature 0 draws the same answer every time, and"
    words = ("-m", "no/such", "--temperature", value)
    said = fails(2, "solve", "How many?", *words)
    assert said.startswith(f"{told} --budget is 10: ")
    assert "leave --temperature out, give one above 0, or --budget 1; see " in said
    assert f"{told} --budget is 2: " in fails(2, "solve", "How many?", *words, "--budget", "2")
    collected = ("collect", "--task", "wordmath", "--out", "x.jsonl", "--samples", "4")
    assert f"{told} --samples is 4: " in fails(2, *collected, *words)


def test_an_unknown_model_is_named(fails: Fails) -> None:
    assert "model 'nope' is neither" in fails(1, "verify", "How many?", "12", "-m", "nope")


def test_nan_logits_are_an_error_and_never_a_score(
    fails: Fails, fast: Fast, model: str, tmp_path: Path
) -> None:
    """Norms near the largest number overflow on the way; NaN in the weights is not even loaded."""
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    tensors = load_file(broken / "model.safetensors")
    for name in tensors:
        if name.endswith("norm.weight"):
            tensors[name].fill_(3e38)
    save_file(tensors, broken / "model.safetensors")
    solve = ["solve", "How many?", "--budget", "1", "--threshold", "0.75"]
    for words in (["verify", "How many?", "12"], solve):
        assert "finite, got NaN" in fails(1, *words, *fast, "--model", broken)
    tensors[min(tensors)].fill_(torch.nan)
    save_file(tensors, broken / "model.safetensors")
    said = fails(1, "verify", "How many?", "12", *fast, "--model", broken)
    assert f"tensor {min(tensors)} holds NaN" in said


def test_corrupt_weights_are_named(fails: Fails, fast: Fast, model: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    path = broken / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    said = fails(1, "verify", "How many?", "12", *fast, "--model", broken)
    assert "model.safetensors is corrupt" in said


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (b'{"prompt": "a", "answer": "b"}\n{"prompt": "a", \n', "line 2 is not valid JSON"),
        (b'{"prompt": "a", "answer": "b"}\n\n[1]\n', "line 3 is not a JSON object"),
        (b'{"prompt": "a", "answer": "b"}\n{"prompt": "\xff"}\n', "line 2 is not valid UTF-8"),
        (b'{"prompt": "a", "answer": "b", "x": NaN}\n', "line 1 is not valid JSON (NaN"),
        (b'{"prompt": "a", "answer": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"prompt": "a"}\n', "has no column 'answer'; it has prompt."),
        (b'{"prompt": "a", "answer": "b", "remask_score": 1}\n', "has a column remask_score"),
    ],
)
def test_a_broken_file_is_refused_before_anything_is_written(
    lines: bytes, sentence: str, fails: Fails, fast: Fast, tmp_path: Path
) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(lines)
    assert sentence in fails(1, "score", source, "-o", tmp_path / "out.jsonl", *fast)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    assert source.read_bytes() == lines


@pytest.mark.parametrize(
    ("source", "out", "sentence"),
    [
        ("missing.jsonl", "out.jsonl", "missing.jsonl: No such file or directory"),
        ("missing.parquet", "out.jsonl", "missing.parquet: No such file or directory"),
        ("folder.jsonl", "out.jsonl", "folder.jsonl: Is a directory"),
        ("in.csv", "out.jsonl", "has the suffix '.csv'; use .jsonl ("),
        ("in.jsonl", "out.csv", "has the suffix '.csv'; use .jsonl ("),
        ("in.jsonl", "in.jsonl", "is read by this command"),
        ("in.jsonl", "in.jsonl/out.jsonl", "in.jsonl is not a folder"),
        ("text.parquet", "out.jsonl", "is not a readable Parquet file"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    source: str, out: str, sentence: str, fails: Fails, fast: Fast, tmp_path: Path
) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "text.parquet").write_text("no parquet at all")
    (tmp_path / "in.jsonl").write_text(json.dumps({"prompt": "a", "answer": "b"}) + "\n")
    assert sentence in fails(1, "score", tmp_path / source, "-o", tmp_path / out, *fast)


def test_an_interrupted_command_leaves_with_130(
    monkeypatch: pytest.MonkeyPatch, fails: Fails, fast: Fast
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(answers, "load_model", interrupt)
    assert "interrupted" in fails(130, "verify", "How many?", "12", *fast)


def test_a_terminated_command_leaves_with_143_and_says_how_to_continue(
    monkeypatch: pytest.MonkeyPatch, fails: Fails, fast: Fast, tmp_path: Path
) -> None:
    def terminate(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)  # the handler runs before this line or during it

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(answers, "load_model", terminate)
    assert fails(143, "verify", "How many?", "12", *fast) == "terminated."
    monkeypatch.setattr(answers, "_complete", terminate)
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"prompt": "a", "answer": "b"}) + "\n")
    said = fails(143, "score", source, "-o", tmp_path / "out.jsonl", *fast)
    assert "Run the same command again to continue" in said
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["score", "pipe.jsonl", "-o", "out.jsonl"], "pipe.jsonl must be a regular file, got a pi"),
        (["verify", "q", "--answer-file", "pipe"], "pipe must be a regular file, got a pipe"),
        (
            ["verify", "q", "--answer-file", "/dev/zero"],
            "/dev/zero must be a regular file, got a d",
        ),
        (["verify", "q", "1", "--weights", "pipe"], "pipe must be a regular file, got a pipe"),
        (["verify", "q", "1", "--certificate", "pipe"], "pipe must be a regular file, got a pipe"),
        (
            ["verify", "q", "1", "--model", "checkpoint"],
            "config.json must be a regular file",
        ),
        (
            ["verify", "--task", "gsm8k", "--data", "pipe.jsonl", "--answer", "1"],
            "regular file, go",
        ),
    ],
)
def test_a_pipe_or_a_device_is_refused_and_not_read(
    words: list[str], sentence: str, fails: Fails, fast: Fast, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("checkpoint").mkdir()
    for name in ("pipe", "pipe.jsonl", "checkpoint/config.json"):
        os.mkfifo(name)
    assert sentence in fails(1, *words[:1], *fast, *words[1:])


def test_an_answer_has_a_limit(fails: Fails, fast: Fast, tmp_path: Path) -> None:
    (tmp_path / "answer").write_bytes(b"1" * 1_000_001)
    words = ("verify", "How many?", *fast)
    said = fails(1, *words, "--answer-file", tmp_path / "answer")
    assert "answer must have at most 1,000,000 bytes" in said
    assert "1,000,000 bytes" in fails(1, *words, "-", stdin=b"1" * 1_000_001)


def test_a_closed_standard_input_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fast: Fast
) -> None:
    monkeypatch.setattr(sys, "argv", ["remask", "verify", "How many?", "-", *fast])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    assert "standard input is closed" in capsys.readouterr().err


def test_an_exception_of_the_users_task_is_one_sentence_with_its_line(
    fails: Fails, fast: Fast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    body = "\n".join(
        f"    {name} = None" for name in ("extract", "judge", "grade", "canvas_length")
    )
    (tmp_path / "failing.py").write_text(
        f"class Task:\n    name, levels, metrics = 'own', ('easy',), ()\n{body}\n"
        "    def problem(self, index, **more):\n        raise KeyError('gold')\n\ntask = Task()\n"
    )
    said = fails(1, "collect", "--task", "failing:task", "-o", "out.jsonl", *fast)
    assert said.startswith("collect failed with KeyError: 'gold' (")
    assert said.endswith("failing.py, line 8).")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_output_is_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fast: Fast, closed: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["remask", "verify", "How many?", "3", *fast])
    monkeypatch.setattr(sys, closed, None)
    with pytest.raises(SystemExit) as left:
        cli.main()
    shown = capsys.readouterr()
    is_lost = closed == "stdout"
    assert left.value.code == int(is_lost)
    assert ("standard output is closed" in shown.err) == is_lost
    assert ("score" in shown.out) != is_lost


ROW = b'{"prompt": "a", "answer": "b"}\n'


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "in.jsonl",
            gzip.compress(ROW, mtime=0),
            "in.jsonl is compressed with gzip; decompress it",
        ),
        (
            "in.jsonl.gz",
            gzip.compress(ROW, mtime=0),
            "in.jsonl.gz is compressed with gzip; decompress it",
        ),
        ("in.jsonl", b"\x28\xb5\x2f\xfd\x04\x58", "is compressed with zstd; decompress it"),
        ("in.jsonl", bz2.compress(ROW), "is compressed with bzip2; decompress it"),
        ("in.jsonl", lzma.compress(ROW), "is compressed with xz; decompress it"),
        ("in.jsonl", b"PK\3\4abc", "is a zip archive; unpack it"),
        ("in.jsonl", b"PAR1abc", "is Parquet; name it .parquet"),
        ("in.jsonl", b"prompt\tanswer\na\tb\n", "looks like CSV; write one JSON object per line"),
        ("in.jsonl", b"prompt;answer\na;b\n", "looks like CSV; write one JSON object per line"),
        ("in.jsonl", b"rows.jsonl" + bytes(90) + b"a,b", "is a binary file or UTF-16"),
        ("in.jsonl", b"prompt,answer\na,b\n", "looks like CSV; write one JSON object per line"),
        ("in.jsonl", b'"prompt","answer"\n"a","b"\n', "looks like CSV"),
        ("in.jsonl", b"[" + ROW + b"]", "is a JSON array; write one object per line"),
        ("in.jsonl", b"[\n" + ROW + b"]", "is a JSON array; write one object per line"),
        ("in.csv", b"prompt,answer\na,b\n", "use .jsonl (one JSON object per line) or .parquet"),
        ("in.json", b"[]", "use .jsonl (one JSON object per line) or .parquet"),
    ],
)
def test_a_file_of_another_format_is_named_with_a_remedy(
    name: str, content: bytes, sentence: str, fails: Fails, fast: Fast, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    assert sentence in fails(1, "score", tmp_path / name, "-o", tmp_path / "out.jsonl", *fast)
    if name == "in.jsonl":  # records are read by the same function
        assert sentence in fails(1, "fit", tmp_path / name, "-o", tmp_path / "weights.json")


def test_a_column_that_is_no_utf_8_is_refused_by_name(
    fails: Fails, fast: Fast, tmp_path: Path
) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"prompt": "a", "answer": "b", "\\ud800": 1}\n')
    said = fails(1, "score", source, "-o", tmp_path / "out.parquet", *fast)
    assert "\\ud800" in said
    assert "does not fit Parquet" in said


def test_a_setting_that_is_given_twice_is_refused(fails: Fails, tmp_path: Path, model: str) -> None:
    config = tmp_path / "twice.yaml"
    config.write_text("updates: 3\nseed: 1\nupdates: 4\n")
    assert "has the key 'updates' twice" in fails(1, "align", "--config", config, "-m", model)
    assert "gives updates twice" in fails(2, "align", "--set", "updates=3", "--set", "updates=3")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["solve", "q", "--stpes", "3"], "Unknown option --stpes. Did you mean --steps?"),
        (["align", "--lr", "3"], "Unknown option --lr. Did you mean --set learning_rate=...?"),
        (["align", "--renyi-ordr", "3"], "Did you mean --set renyi_order=...?"),
        (["solve", "q", "--lr", "3"], "Unknown option --lr;"),
        (["solve", "q", "--kind", "numbr"], "got 'numbr'. Did you mean 'number'?"),
        (["study", "diagnosys", "rec.jsonl"], "Unknown study 'diagnosys'. Did you mean 'diagnosis"),
        (["solve", "--task", "GSM8K", "-m", "tiny"], "Unknown task 'GSM8K'. Did you mean 'gsm8k'?"),
        (["solve", "--task", "wordmth", "-m", "tiny"], "Did you mean 'wordmath'?"),
        (["models", "tinny"], "Did you mean tiny?"),
        (["verify", "q", "a", "-m", "Tiny"], "Did you mean tiny?"),
        (["verify", "q", "a", "-m", "tiny", "--metrics", "Core"], "Did you mean 'core'?"),
        (
            ["verify", "q", "a", "-m", "tiny", "--metrics", "confidence,token_acuracy"],
            "token_acuracy'. Did you mean 'token_accuracy'?",
        ),
        (
            ["collect", "--task", "wordmath", "--level", "Easy", "-m", "tiny", "-o", "o.jsonl"],
            "Did you mean 'easy'?",
        ),
        (["models", "GSAI-ML/LLaDA-8B-Instuct"], "Did you mean GSAI-ML/LLaDA-8B-Instruct?"),
        (["models", "llada-8b-instruct"], "Did you mean GSAI-ML/LLaDA-8B-Instruct?"),
    ],
)
def test_a_misspelt_word_comes_with_the_nearest_one(
    words: list[str], sentence: str, fails: Fails
) -> None:
    code = 2 if "--" in sentence or {"study", "--kind", "--metrics"} & {*words} else 1
    assert sentence in fails(code, *words)


def test_the_embedded_model_is_listed_by_name(run: Callable[..., Any]) -> None:
    result = run("models", "tiny", "--json")
    assert result.code == 0
    assert json.loads(result.out)["model"] == "tiny"


@pytest.mark.parametrize("columns", ["0", "-1", "", "many"])
def test_a_terminal_without_columns_still_shows_the_result(
    columns: str, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert "GSAI-ML/LLaDA-8B-Instruct" in run("models").out


def test_an_error_cannot_steer_the_terminal(fails: Fails) -> None:
    said = fails(1, "verify", "a", "-m", "x", "--answer-file", "\x1b[31m")
    assert "\x1b" not in said
