import errno
import fcntl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from remask.errors import RecordError, WriteError
from remask.records.lock import check_held, locked

HOLD = """
import pathlib, sys
from remask.records.lock import check_held, locked
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


def test_a_holder_whose_lock_file_was_removed_stops_and_leaves_that_of_the_next(
    tmp_path: Path,
) -> None:
    out, lock = tmp_path / "records.jsonl", tmp_path / "records.jsonl.lock"
    check_held(out)
    with ThreadPoolExecutor(1) as other:
        next_one = locked(out)
        with locked(out):
            check_held(out)
            lock.unlink()
            for _ in range(2):
                with pytest.raises(RecordError, match=r"records.jsonl.lock must exist until"):
                    check_held(out)
                if not lock.exists():
                    other.submit(next_one.__enter__).result()
        assert lock.exists()
        other.submit(next_one.__exit__, None, None, None).result()
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with (
        pytest.raises(WriteError, match=r"Cannot lock .*a.lock: No locks available\."),
        locked(tmp_path / "a"),
    ):
        pass


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_folder_that_takes_no_file_is_an_error_and_not_an_endless_loop() -> None:
    with (
        pytest.raises(WriteError, match=r"Cannot write /proc/out\.lock"),
        locked(Path("/proc/out")),
    ):
        pass
