"""Imputers of other packages, and ours."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from imputation.classical import Fitted, Kinds, Levels

# miceforest completes one data set unless told otherwise. Each is a draw, and a draw is a poor guess of a single cell:
# the mean of five is what its users would take for one.
DATA_SETS = 5
ROUNDS = 5  # of miceforest, which has no default for them
# An environment of its own: it needs older packages than ours.
HYPERIMPUTE = Path(__file__).parents[2] / ".venv-hyperimpute/bin/python"
CLASS_THRESHOLD = 5  # HyperImpute's default: a column with fewer different values than this is a category


def as_frame(rows: np.ndarray, kinds: Kinds, levels: Levels) -> pd.DataFrame:
    """Rows as a data scientist would hold them: categories are such."""
    frame = pd.DataFrame(rows, columns=[f"x{i}" for i in range(rows.shape[1])])
    for i, kind in enumerate(kinds):
        if kind == "category":
            frame[f"x{i}"] = pd.Categorical(frame[f"x{i}"], categories=list(range(levels[i])))
    return frame


def mice(rows: np.ndarray, kinds: Kinds, levels: Levels, seed: int) -> Fitted:
    """Chained equations with gradient boosting (miceforest): mean, median or mode of its completed data sets."""
    import miceforest

    kernel = miceforest.ImputationKernel(as_frame(rows, kinds, levels), num_datasets=DATA_SETS, random_state=seed)
    kernel.mice(ROUNDS)

    def completed(new: np.ndarray) -> np.ndarray:
        if new.shape == rows.shape and np.array_equal(new, rows, equal_nan=True):
            found = kernel
        else:
            found = _impute_new(kernel, as_frame(new, kinds, levels))
        return np.stack([found.complete_data(i).astype(float).to_numpy() for i in range(DATA_SETS)])

    def fill(new: np.ndarray) -> np.ndarray:
        draws = completed(new)
        best = draws.mean(axis=0)
        for i, kind in enumerate(kinds):
            if kind == "category":
                counts = np.stack([(draws[:, :, i] == code).sum(axis=0) for code in range(levels[i])])
                best[:, i] = counts.argmax(axis=0)
            elif kind == "ordinal":
                best[:, i] = np.median(draws[:, :, i], axis=0)
        return best

    return Fitted(fill)


def _impute_new(kernel: Any, frame: pd.DataFrame) -> Any:
    """Rows that miceforest has not seen, filled by its own method with an oversight of version 6.0.5 mended.

    It does not count its rounds there: each begins at the random cells of the start, and those are what it returns.
    """
    from miceforest.imputed_data import ImputedData

    keep = ImputedData.__setitem__

    def keep_and_count(self: Any, at: tuple[str, int, int], cells: Any) -> None:
        keep(self, at, cells)
        variable, round_, data_set = at
        self.iteration_tab[variable, data_set] = round_

    with patch.object(ImputedData, "__setitem__", keep_and_count):
        return kernel.impute_new_data(frame, datasets=list(range(DATA_SETS)))


_WORKER = """
import sys, warnings
import numpy as np, pandas as pd
warnings.simplefilter("ignore")
from hyperimpute.plugins.imputers import Imputers
given = np.load(sys.argv[1])
imputer = Imputers().get("hyperimpute", random_state=int(sys.argv[3]), class_threshold=int(sys.argv[4]))
out = imputer.fit_transform(pd.DataFrame(given))
np.save(sys.argv[2], np.asarray(out, float))
"""


def class_threshold(kinds: Kinds, levels: Levels) -> int:
    """From how many different values HyperImpute takes a column for numbers: it has no other way to be told.

    Every category is below it, with the hole that it counts as one value more. Ordered codes and numbers that have no
    more values than the largest category are taken for categories too.
    """
    largest = max((levels[i] for i, kind in enumerate(kinds) if kind == "category"), default=0)
    return max(CLASS_THRESHOLD, largest + 2)


def hyperimpute(rows: np.ndarray, kinds: Kinds, levels: Levels, seed: int) -> Fitted:
    """HyperImpute, in a process and an environment of its own; rows it has not seen it cannot fill."""
    if not HYPERIMPUTE.exists():
        raise FileNotFoundError(f"{HYPERIMPUTE} is not there: see the Makefile's .venv-hyperimpute.")
    with tempfile.TemporaryDirectory() as folder:
        given, filled = Path(folder) / "given.npy", Path(folder) / "filled.npy"
        np.save(given, rows)
        command = [str(HYPERIMPUTE), "-c", _WORKER, str(given), str(filled)]
        command += [str(seed), str(class_threshold(kinds, levels))]
        run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if run.returncode:
            said = [line for line in run.stderr.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)]
            raise RuntimeError(said[-1] if said else f"it ended with {run.returncode}")
        out = np.load(filled)
    for i, kind in enumerate(kinds):
        if kind != "number":
            out[:, i] = np.clip(np.rint(out[:, i]), 0, levels[i] - 1)

    def fill(new: np.ndarray) -> np.ndarray:
        if new.shape != rows.shape or not np.array_equal(new, rows, equal_nan=True):
            raise NotImplementedError
        return out

    return Fitted(fill)


def ours(rows: np.ndarray, kinds: Kinds, levels: Levels, seed: int) -> Fitted:
    """`DLGMImputer` with its defaults; draws by the `DLGM` inside."""
    from dlgm import DLGMImputer

    imputer = DLGMImputer(random_state=seed).fit(as_frame(rows, kinds, levels))

    def fill(new: np.ndarray) -> np.ndarray:
        return imputer.transform(as_frame(new, kinds, levels)).astype(float).to_numpy()

    def draw(new: np.ndarray, number: int) -> np.ndarray:
        found = imputer.table_.impute(as_frame(new, kinds, levels), draws=number, seed=seed, thin=10)
        return np.stack([found[i].astype(float).to_numpy() for i in range(number)])

    return Fitted(fill, draw)


if __name__ == "__main__":
    sys.exit("run benchmarks/imputation/run.py")
