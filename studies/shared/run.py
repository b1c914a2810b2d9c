"""What a measurement depends on besides the code: the commit and the hardware."""

import os
import platform
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]


def hardware() -> str:
    """Return the GPU if there is one, the processor, its cores and the threads in use."""
    listing = Path("/proc/cpuinfo")
    text = listing.read_text() if listing.exists() else ""
    name = text.partition("model name")[2].partition("\n")[0].strip("\t: ") or platform.machine()
    gpu = f"{torch.cuda.get_device_name()}; " if torch.cuda.is_available() else ""
    return f"{gpu}{name}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"


def commit() -> str:
    """Return the commit, marked `-dirty` if files differ; "unknown" outside a repository."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
