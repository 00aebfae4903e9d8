"""The floor: the same list of matrix products, and nothing else, at the speed of a tuned BLAS.

python products.py (step | likelihood | folded) (diagonal | rank-one) (numpy | torch)
"""

import sys

import numpy as np

from protocol import BATCH, HIDDEN, LATENTS, PIXELS, SAMPLES, serve

Shape = tuple[int, int, int]  # (m, k, n): an m-by-k matrix times a k-by-n one


def of_step(covariance: str) -> list[Shape]:
    """Forwards, then the gradient of each weight, and of each layer's input but the data."""
    head = (3 if covariance == "rank-one" else 2) * LATENTS
    layers = [(PIXELS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, head)]
    layers += [(LATENTS, LATENTS), (LATENTS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, PIXELS)]
    forwards = [(BATCH, i, o) for i, o in layers]
    return forwards + [(i, BATCH, o) for i, o in layers] + [(BATCH, o, i) for i, o in layers[1:]]


def of_likelihood(covariance: str) -> list[Shape]:
    """SAMPLES decodings, a thousand at a time."""
    layers = [(LATENTS, LATENTS), (LATENTS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, PIXELS)]
    return [(1_000, i, o) for i, o in layers] * (SAMPLES // 1_000)


def of_folded_likelihood(covariance: str) -> list[Shape]:
    """The same with G folded into the map after it."""
    return [shape for shape in of_likelihood(covariance) if shape != (1_000, LATENTS, LATENTS)] + [
        (1_000, LATENTS, HIDDEN),
        (1_000, HIDDEN, HIDDEN),
    ] * (SAMPLES // 1_000)


if __name__ == "__main__":
    job, covariance, library = sys.argv[1:]
    shapes = {"step": of_step, "likelihood": of_likelihood, "folded": of_folded_likelihood}[job](covariance)
    if library == "numpy":
        make, multiply = (lambda *size: np.ones(size, np.float32)), np.matmul
    else:
        import torch

        torch.set_grad_enabled(False)
        make, multiply = torch.ones, torch.mm
    triples = [(make(m, k), make(k, n), make(m, n)) for m, k, n in shapes]

    def products(n: int) -> None:
        for _ in range(n):
            for a, b, c in triples:
                multiply(a, b, out=c)

    serve(products)
