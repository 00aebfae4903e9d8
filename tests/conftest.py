import gc
import os
from pathlib import Path

import hypothesis
import pytest

# Most of the suite's time goes into compiling. What one test, worker or command has compiled serves all the others, and
# the next run; set before JAX is imported, so that child processes have it too.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Programs that run for a moment are not worth optimising: compiling them takes a fifth of the time this way. With
# DLGM_TEST_COMPILER=full they are compiled as users' programs are.
if os.environ.get("DLGM_TEST_COMPILER") != "full":
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    os.environ["XLA_FLAGS"] = " ".join(
        [
            os.environ.get("XLA_FLAGS", ""),
            "--xla_cpu_use_fusion_emitters=false",
            "--xla_cpu_parallel_codegen_split_count=1",
        ]
    )

# No test leaves this machine, and none finds what its user has fetched.
os.environ["DLGM_OFFLINE"] = "1"
os.environ["DLGM_CACHE"] = str(Path(__file__).parents[1] / ".pytest_cache" / "no-data")
os.environ.pop("DLGM_MIRROR", None)

import jax

# Tracing makes millions of small objects that live on: looking through them again and again takes a tenth of the time.
gc.set_threshold(200_000, 50, 100)

# Properties are checked on the same examples every time: a failure can be run again, and a pass is not luck.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.load_profile("fixed")


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield
