"""Our imputer beside the others on real tables: `make bench-imputation`, or this file with --table and --method.

Each result is a line of results.jsonl beside this file; what is there is not computed again. `--page` writes the
tables of docs/imputation.md from all of them.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

sys.path.insert(0, str(Path(__file__).parents[1]))

from imputation import page
from imputation.classical import Fitted, factor_analysis, iterated_forest, knn, mean_or_mode, miss_forest, ridge
from imputation.limit import time_limit
from imputation.miwae import miwae
from imputation.others import hyperimpute, mice, ours
from imputation.scores import mixed_error, of_draws, squared_error
from imputation.tasks import DOWNSTREAM, FROZEN, MASKS, MIXED, NUMBERS, Task, mixed, numbers, unseen

METHODS: dict[str, Callable[..., Fitted]] = {
    "mean/mode": mean_or_mode,
    "kNN": knn,
    "iterated ridge": ridge,
    "iterated forest": iterated_forest,
    "missForest": miss_forest,
    "factor analysis": factor_analysis,
    "MICE": mice,
    "MIWAE": miwae,
    "HyperImpute": hyperimpute,
    "dlgm": ours,
}
# Methods that take many minutes on Adult's 32,561 rows are tried with one of its masks; the page says so.
SLOW_ON_ADULT = ("kNN", "iterated forest", "missForest", "MICE", "MIWAE", "HyperImpute")
DRAWS = 100


def tasks() -> Iterator[tuple[str, str, int, Callable[[], Task]]]:
    """Protocol, table, which of its masks, and how to make the task."""
    for table in NUMBERS:
        for seed in range(MASKS):
            yield "numbers", table, seed, partial(numbers, table, seed)
    for table in MIXED:
        for i, mask in enumerate(FROZEN):
            yield f"mixed {mask[:2]} %", table, i % 3, partial(mixed, table, mask)
    for table in DOWNSTREAM:
        for seed in range(MASKS):
            yield "new rows", table, seed, partial(unseen, table, seed)


def main() -> None:
    """Run what has not been run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--protocol", action="append", help="numbers, mixed 20 %%, mixed 50 %%, new rows")
    parser.add_argument("--table", action="append")
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--masks", type=int, default=MASKS)
    parser.add_argument("--redo", action="store_true", help="run again what is there; the newest line counts")
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    results = asked.out / "results.jsonl"
    found = page.read(results)
    done = {(r["protocol"], r["table"], r["mask"], r["method"]) for r in found if not asked.redo}
    for protocol, table, mask, make in tasks():
        if mask >= asked.masks or (asked.table and table not in asked.table):
            continue
        if asked.protocol and protocol not in asked.protocol:
            continue
        wanted = [name for name in METHODS if not asked.method or name in asked.method]
        wanted = [name for name in wanted if mask < _masks_of(name, table)]
        wanted = [name for name in wanted if (protocol, table, mask, name) not in done]
        if protocol == "new rows":
            wanted = [name for name in wanted if name != "HyperImpute"]
        if not wanted:
            continue
        try:
            task = make()
        except FileNotFoundError as error:
            print(f"{table}: skipped, its files are not here ({error}). Set DLGM_DATA.")
            continue
        for name in wanted:
            if not asked.redo and _ran_out_of_time(page.read(results), name, table, protocol):
                continue
            run = {"protocol": protocol, "table": table, "mask": mask, "method": name, "revision": page.revision()}
            try:
                record = {**run, **_scored(name, task, protocol)}
            except (ImportError, FileNotFoundError) as error:
                print(f"{name} on {table}: skipped, it is not installed ({error}).")
                continue
            with results.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps({k: v for k, v in record.items() if k != "draws"}), flush=True)
    if asked.page:
        page.write(asked.page, page.read(results))


def _masks_of(method: str, table: str) -> int:
    return 1 if table.startswith("adult") and method in SLOW_ON_ADULT else MASKS


def _ran_out_of_time(records: list[dict], method: str, table: str, protocol: str) -> bool:
    """Whether a method was too slow for one mask of a table: it is not tried with the others, whatever they hide."""
    return any(
        (r["method"], r["table"], r["protocol"].split()[0]) == (method, table, protocol.split()[0])
        and r.get("failed", "").startswith(TimeoutError.__name__)
        for r in records
    )


def _scored(name: str, task: Task, protocol: str) -> dict:
    """What there is to say of a method on a task; of one that failed anywhere, why, and what it had shown by then."""
    began = time.perf_counter()
    record: dict = {}
    try:
        with time_limit():
            fitted = METHODS[name](task.rows, task.kinds, task.levels, task.seed)
            filled = fitted.fill(task.rows)
        record["seconds"] = time.perf_counter() - began
        if protocol.startswith("mixed"):
            record["error"] = mixed_error(filled, task.truth, task.hidden, task.kinds, task.levels)
        else:
            record["error"] = squared_error(filled, task.truth, task.hidden)
        if protocol == "new rows":
            record |= _new_rows(fitted, filled, task)
        elif fitted.draw is not None:
            few = np.arange(min(len(task.rows), 10_000))  # rows are in no order that matters to a mask at random
            draws = fitted.draw(task.rows[few], DRAWS)
            record["draws"] = of_draws(draws, task.truth[few], task.hidden[few], task.kinds, task.levels)
    except (ImportError, FileNotFoundError):  # what is not installed has not been run
        raise
    except Exception as error:  # a peer's failure is a result
        record.setdefault("seconds", time.perf_counter() - began)
        record["failed"] = f"{type(error).__name__}: {error}"[:300]
    return record


def _new_rows(fitted: Fitted, filled: np.ndarray, task: Task) -> dict:
    """The error on rows that were not there in training, and what a model trained on the fills is worth on them."""
    assert task.new is not None
    assert task.new_hidden is not None
    new = fitted.fill(task.new_rows)
    kind = HistGradientBoostingClassifier if DOWNSTREAM[task.table] == "classifier" else HistGradientBoostingRegressor
    model = kind(random_state=task.seed).fit(filled, task.target)
    return {
        "error on new rows": squared_error(new, task.new, task.new_hidden),
        "downstream": float(model.score(new, task.new_target)),
    }


if __name__ == "__main__":
    main()
