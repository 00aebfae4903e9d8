"""How long until something has happened: importing, and a command up to its first finished epoch."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DLGM = str(Path(sys.executable).parent / "dlgm")


def seconds(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def first_epoch(folder: Path, cache: Path) -> float:
    """From the command to the first line of its history, compilation included where the cache is empty."""
    history = folder / "history.jsonl"
    history.unlink(missing_ok=True)
    began = time.perf_counter()
    command = [DLGM, "fit", "digits", "--out", str(folder / "digits.dlgm"), "--history", str(history)]
    environment = {**os.environ, "DLGM_CACHE": str(cache)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None and not (history.exists() and history.read_text().endswith("\n")):
            time.sleep(0.01)
        elapsed = time.perf_counter() - began
    finally:
        process.kill()
        process.wait()
    json.loads(history.read_text().splitlines()[0])  # there was an epoch
    return elapsed


def measure(rounds: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n in range(rounds + 1):
            once = {
                "python": seconds(sys.executable, "-c", "pass"),
                "import jax": seconds(sys.executable, "-c", "import jax"),
                "import dlgm": seconds(sys.executable, "-c", "import dlgm"),
                "dlgm --help": seconds(DLGM, "--help"),
                "dlgm fit digits, to the first epoch": first_epoch(folder, folder / f"cache {n}"),
                "dlgm fit digits, to the first epoch, not for the first time": first_epoch(folder, folder / "cache 0"),
            }
            if n:  # the first round only warms the disk
                for name, value in once.items():
                    times.setdefault(name, []).append(value)
    return {name: {"median": float(np.median(v)), "all": v} for name, v in times.items()}
