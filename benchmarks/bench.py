"""Speed, memory and growth, measured beside the peers: `make bench`, or python benchmarks/bench.py --only step,start

Writes a table (results.md), everything measured with the machine and versions (results.json) and a plot
(results.png) into `--out`. A part that is measured again takes the place of what was there.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import growth
import machine
import memory
import peers
import processes
import start
from picture import draw
from table import tabulate

PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "step": lambda rounds: peers.compare(peers.STEP, units=100, rounds=rounds),
    "likelihood": lambda rounds: peers.compare(peers.LIKELIHOOD, units=20, rounds=max(3, rounds // 2)),
    "chain": lambda rounds: peers.compare(peers.CHAIN, units=2_000, rounds=rounds),
    "sample": lambda rounds: peers.compare(peers.SAMPLE, units=50_000, rounds=rounds),
    "posteriors": growth.posteriors,
    "growth": lambda rounds: growth.steps(max(3, rounds // 3)),
    "start": lambda rounds: start.measure(max(3, rounds // 4)),
    "memory": lambda rounds: memory.measure(),
    "processes": lambda rounds: processes.measure(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=21, help="turns of each worker")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"--only: expected some of {', '.join(PARTS)}; got {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for name in wanted:
        print(f"{name} ..", flush=True)
        # Through JSON, so that what is shown is what is kept.
        results[name] = json.loads(json.dumps({"machine": machine.describe(), **PARTS[name](options.rounds)}))
        path.write_text(json.dumps(results, indent=1))
    table = tabulate(results)
    (options.out / "results.md").write_text(table)
    draw(results, options.out / "results.png")
    print(table)


if __name__ == "__main__":
    main()
