"""Put a trained model among those that come with the package.

    python benchmarks/ship.py out/table1/dlgm-rank-one-0123456789.dlgm paper-mnist

It needs the data that the model was trained on (DLGM_DATA, or fetched): the likelihood of 200 test rows becomes part of
the file, and tests/test_shipped.py computes it anew.
"""

import argparse
import sys
from pathlib import Path

from dlgm.artifact import SHIPPED, load_model, save_model
from dlgm.data import load_dataset
from dlgm.reproduce.shipping import SAMPLES, stripped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a model file that a study or `dlgm fit` wrote")
    parser.add_argument("name", help="the name by which it is asked for")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="importance samples a row")
    parser.add_argument("--newton", type=int, default=0, help="steps to the peak of a row's posterior, for proposals")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=SHIPPED, help="where it is put")
    asked = parser.parse_args()
    if Path(asked.name).name != asked.name or asked.name.endswith(".dlgm"):
        sys.exit(f"name: expected a plain name, such as paper-mnist; got {asked.name!r}.")
    try:
        saved = load_model(asked.model)
        data = load_dataset(saved.data["name"])
        shipped = stripped(saved, data, samples=asked.samples, seed=asked.seed, newton=asked.newton)
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    except KeyError:
        sys.exit(f"{asked.model}: expected a model of a data set with a name; its file names none.")
    path = asked.folder / f"{asked.name}.dlgm"
    save_model(path, shipped)
    found = shipped.training["likelihood"]
    print(f"{path}: {path.stat().st_size:,} bytes; log p(v) {found['log_p']:.2f} (Monte Carlo {found['error']:.3f})")


if __name__ == "__main__":
    main()
