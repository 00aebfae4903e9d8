"""What was measured, and on what."""

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

PACKAGES = ("dlgm", "jax", "jaxlib", "equinox", "optax", "numpyro", "numpy", "scipy", "torch", "pyro-ppl")


def describe() -> dict[str, Any]:
    """The processor, its cores and flags, memory, and versions."""
    cpu = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    pairs = (line.split(":", 1) for line in cpu.splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in pairs}
    flags = fields.get("flags", "").split()
    return {
        "processor": fields.get("model name", platform.processor()),
        "cores": os.cpu_count(),
        "vectors": [flag for flag in ("avx2", "fma", "avx512f", "amx_tile") if flag in flags],
        "memory, GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
    }
