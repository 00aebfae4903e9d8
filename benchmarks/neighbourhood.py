"""How well a hidden pixel of MNIST can be told from the 9 by 9 pixels around it: gradient boosting, by the cut.

What a model of whole images should beat, and how much F1 depends on how grey is made black and white. Run with
DLGM_DATA set: python benchmarks/neighbourhood.py
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import dlgm

CUTS = {"mnist": (127, False), "mnist-ink": (0, False), "mnist, with grey given": (127, True)}
SHARES = (0.4, 0.6, 0.8)
IMAGES, PIXELS = 20_000, 400_000  # that are learned from


def patches(
    given: np.ndarray, bits: np.ndarray, share: float, rng: np.random.Generator, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """What is given around each hidden pixel, NaN where that is hidden too, with its place; and the pixel."""
    n = len(given)
    hidden = rng.random(given.shape) < share
    seen = np.where(hidden, np.nan, given.astype(np.float32)).reshape(n, 28, 28)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(seen, ((0, 0), (4, 4), (4, 4))), (9, 9), axis=(1, 2))
    at = np.argwhere(hidden.reshape(n, 28, 28))
    if most is not None:
        at = at[rng.choice(len(at), most, replace=False)]
    around = windows[at[:, 0], at[:, 1], at[:, 2]].reshape(len(at), 81)
    return np.c_[np.delete(around, 40, axis=1), at[:, 1:]], bits.reshape(n, 28, 28)[at[:, 0], at[:, 1], at[:, 2]]


def main() -> None:
    """A line for each cut and share."""
    data, rng = dlgm.load_dataset("mnist"), np.random.default_rng(0)
    train, test = data.train[:IMAGES], data.test[::20]
    for name, (cut, grey) in CUTS.items():
        for share in SHARES:
            bits, test_bits = train > cut, test > cut
            model = HistGradientBoostingClassifier(max_iter=150, max_leaf_nodes=63, learning_rate=0.15, random_state=0)
            model.fit(*patches(train if grey else bits, bits, share, rng, PIXELS))
            x, true = patches(test if grey else test_bits, test_bits, share, rng)
            found = model.predict_proba(x)[:, 1] > 0.5
            f1 = 2 * np.sum(found & true) / (np.sum(found) + np.sum(true))
            print(f"{name}, {share:.0%} hidden: F1 {f1:.3f}, wrong bits {np.mean(found != true):.2%}", flush=True)


if __name__ == "__main__":
    main()
