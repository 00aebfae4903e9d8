"""Pyro: python pyro_peer.py (step | likelihood)"""

import sys

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, RenyiELBO, TraceMeanField_ELBO

from protocol import BATCH, DECAY, FLIPPED, LATENTS, PIXELS, RATE, ROWS, SAMPLES, bits, serve
from torch_peer import VAE


class PyroVAE(VAE):
    """The same networks as a Pyro model and guide."""

    def model(self, rows: torch.Tensor, noisy: torch.Tensor) -> None:
        pyro.module("vae", self)
        with pyro.plate("rows", rows.shape[-2]):
            xi = pyro.sample("xi", dist.Normal(torch.zeros(LATENTS), torch.ones(LATENTS)).to_event(1))
            pyro.sample("v", dist.Bernoulli(logits=self.decode(xi), validate_args=False).to_event(1), obs=rows)

    def guide(self, rows: torch.Tensor, noisy: torch.Tensor) -> None:
        pyro.module("vae", self)
        mean, log_variance = self.encode(noisy)
        with pyro.plate("rows", rows.shape[-2]):
            pyro.sample("xi", dist.Normal(mean, torch.exp(0.5 * log_variance)).to_event(1))


def step() -> None:
    rows, vae = torch.tensor(bits(ROWS)), PyroVAE()
    order = torch.randperm(ROWS).reshape(-1, BATCH)
    svi = SVI(vae.model, vae.guide, pyro.optim.RMSprop({"lr": RATE, "alpha": DECAY}), TraceMeanField_ELBO())

    def job(n: int) -> None:
        for i in range(n):
            batch = rows[order[i % len(order)]]
            flips = torch.rand_like(batch) < FLIPPED
            svi.step(batch, torch.where(flips, 1 - batch, batch))

    serve(job)


def likelihood() -> None:
    rows, vae = torch.tensor(bits(100)), PyroVAE()
    bound = RenyiELBO(alpha=0, num_particles=SAMPLES, vectorize_particles=True, max_plate_nesting=1)

    @torch.no_grad()
    def job(n: int) -> None:
        for i in range(n):
            bound.loss(vae.model, vae.guide, rows[i : i + 1], rows[i : i + 1])

    serve(job)


if __name__ == "__main__":
    pyro.set_rng_seed(0)
    pyro.enable_validation(False)
    assert PIXELS == 784
    {"step": step, "likelihood": likelihood}[sys.argv[1]]()
