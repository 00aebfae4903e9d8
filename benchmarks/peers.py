"""Training step, likelihood, imputation and sampling beside the peers, and beside the products alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from turns import ratio, summarise, take_turns

STEP = {
    "dlgm, diagonal": ("ours.py", "step", "diagonal"),
    "dlgm, rank-one": ("ours.py", "step", "rank-one"),
    "dlgm, rank-one, with clipping and averaging": ("ours.py", "shipped", "rank-one"),
    "NumPyro, a call a step": ("numpyro_peer.py", "step", "each"),
    "NumPyro, in a scan": ("numpyro_peer.py", "step", "scan"),
    "Pyro": ("pyro_peer.py", "step"),
    "PyTorch, eager": ("torch_peer.py", "step", "eager"),
    "PyTorch, compiled": ("torch_peer.py", "step", "compile"),
    "products alone (NumPy), diagonal": ("products.py", "step", "diagonal", "numpy"),
    "products alone (PyTorch), diagonal": ("products.py", "step", "diagonal", "torch"),
    "products alone (NumPy), rank-one": ("products.py", "step", "rank-one", "numpy"),
    "products alone (PyTorch), rank-one": ("products.py", "step", "rank-one", "torch"),
}
LIKELIHOOD = {
    "dlgm, diagonal": ("ours.py", "likelihood", "diagonal"),
    "dlgm, rank-one": ("ours.py", "likelihood", "rank-one"),
    "NumPyro": ("numpyro_peer.py", "likelihood", "each"),
    "Pyro": ("pyro_peer.py", "likelihood"),
    "PyTorch, eager": ("torch_peer.py", "likelihood", "eager"),
    "PyTorch, compiled": ("torch_peer.py", "likelihood", "compile"),
    "products alone (NumPy)": ("products.py", "likelihood", "diagonal", "numpy"),
    "products alone (PyTorch)": ("products.py", "likelihood", "diagonal", "torch"),
    "products alone without G (NumPy)": ("products.py", "folded", "diagonal", "numpy"),
}
CHAIN = {
    "dlgm, rank-one": ("ours.py", "chain", "rank-one"),
    "dlgm, diagonal": ("ours.py", "chain", "diagonal"),
    "PyTorch, eager": ("torch_peer.py", "chain", "eager"),
    "PyTorch, compiled": ("torch_peer.py", "chain", "compile"),
}
SAMPLE = {
    "dlgm": ("ours.py", "sample", "diagonal"),
    "PyTorch, eager": ("torch_peer.py", "sample", "eager"),
}


def compare(workers: Mapping[str, Sequence[str]], *, units: int, rounds: int) -> dict[str, Any]:
    times = take_turns(workers, units=units, rounds=rounds)
    result: dict[str, Any] = {"seconds": summarise(times), "ratios": {}, "units a turn": units, "rounds": rounds}
    medians = {name: float(np.median(values)) for name, values in times.items()}
    floors = [name for name in times if name.startswith("products alone") and "without G" not in name]
    ours = [name for name in times if name.startswith("dlgm")]
    best = min(
        (name for name in times if name not in ours and not name.startswith("products")), key=medians.__getitem__
    )
    for name in ours:
        result["ratios"][f"{best} / {name}"] = ratio(times, best, name)
        kind = next((k for k in ("diagonal", "rank-one") if k in name), "")
        if fitting := [floor for floor in floors if "," not in floor or kind in floor]:
            floor = min(fitting, key=medians.__getitem__)
            result["ratios"][f"{name} / {floor}"] = ratio(times, name, floor)
    if {"dlgm, rank-one", "dlgm, diagonal"} <= set(times):
        result["ratios"]["rank-one / diagonal"] = ratio(times, "dlgm, rank-one", "dlgm, diagonal")
    return result
