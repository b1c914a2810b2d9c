import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from remask.errors import RecordError
from remask.records.lock import locked

HOLD = """
import pathlib, sys
from remask.records.lock import locked
with locked(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("name", ["records.jsonl", "run"])
def test_a_second_process_is_refused_with_the_name_of_the_first(tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    command = [sys.executable, "-c", HOLD, str(out)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        with pytest.raises(RecordError, match=rf"in use by process {first.pid} \("), locked(out):
            pass
        first.kill()
        first.wait()
    with locked(out):
        assert (tmp_path / f"{name}.lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_the_holder_can_take_a_lock_again_and_another_thread_cannot(tmp_path: Path) -> None:
    out = tmp_path / "new" / "records.jsonl"
    with locked(out), ThreadPoolExecutor(1) as other:
        with locked(out):
            pass
        held = other.submit(locked(out).__enter__)
        with pytest.raises(RecordError, match="in use by process"):
            held.result()
    assert list(tmp_path.iterdir()) == [], "a folder that was made for the lock is removed"


def test_the_lock_counts_increments_of_several_processes(tmp_path: Path) -> None:
    out = tmp_path / "counter"
    script = (
        "import pathlib, sys, time\n"
        "from remask.errors import RecordError\n"
        "from remask.records.lock import locked\n"
        "out, done = pathlib.Path(sys.argv[1]), 0\n"
        "while done < 20:\n"
        "    try:\n"
        "        with locked(out):\n"
        "            value = int(out.read_text()) if out.exists() else 0\n"
        "            out.write_text(str(value + 1))\n"
        "            done += 1\n"
        "    except RecordError:\n"
        "        time.sleep(0.001)\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script, str(out)]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert out.read_text() == "80"
