"""Plain PyTorch: python torch_peer.py (step | likelihood | chain | sample) (eager | compile)"""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from protocol import BATCH, CHAIN, DECAY, FLIPPED, HIDDEN, LATENTS, PIXELS, RATE, ROWS, SAMPLES, bits, serve


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode_1, self.encode_2 = nn.Linear(PIXELS, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, 2 * LATENTS)
        self.G = nn.Linear(LATENTS, LATENTS, bias=False)
        self.decode_1, self.decode_2 = nn.Linear(LATENTS, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.decode_3 = nn.Linear(HIDDEN, PIXELS)

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = self.head(torch.tanh(self.encode_2(torch.tanh(self.encode_1(x))))).chunk(2, -1)
        return mean, log_variance

    def decode(self, xi: torch.Tensor) -> torch.Tensor:
        return self.decode_3(torch.tanh(self.decode_2(torch.tanh(self.decode_1(self.G(xi))))))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        flips = torch.rand_like(rows) < FLIPPED
        mean, log_variance = self.encode(torch.where(flips, 1 - rows, rows))
        xi = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        reconstruction = F.binary_cross_entropy_with_logits(self.decode(xi), rows, reduction="sum")
        kl = 0.5 * torch.sum(mean**2 + log_variance.exp() - log_variance - 1)
        return (reconstruction + kl) / len(rows)


def step(style: str) -> None:
    rows, vae = torch.tensor(bits(ROWS)), VAE()
    order = torch.randperm(ROWS).reshape(-1, BATCH)
    optimiser = torch.optim.RMSprop(vae.parameters(), lr=RATE, alpha=DECAY, foreach=True)
    loss = torch.compile(vae) if style == "compile" else vae

    def job(n: int) -> None:
        for i in range(n):
            optimiser.zero_grad(set_to_none=True)
            loss(rows[order[i % len(order)]]).backward()
            optimiser.step()

    serve(job)


def likelihood(style: str) -> None:
    """Row by row, a thousand samples at a time, which stay in the cache."""
    rows, vae = torch.tensor(bits(100)), VAE()
    prior = torch.distributions.Normal(0.0, 1.0)

    def log_weights(row: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        xi = mean + scale * torch.randn(1_000, LATENTS)
        logits = vae.decode(xi)
        log_v = -F.binary_cross_entropy_with_logits(logits, row.expand_as(logits), reduction="none").sum(-1)
        posterior = torch.distributions.Normal(mean, scale, validate_args=False)
        return log_v + prior.log_prob(xi).sum(-1) - posterior.log_prob(xi).sum(-1)

    weights = torch.compile(log_weights) if style == "compile" else log_weights

    @torch.no_grad()
    def job(n: int) -> None:
        for i in range(n):
            mean, log_variance = vae.encode(rows[i])
            scale = torch.exp(0.5 * log_variance)
            log_w = torch.cat([weights(rows[i], mean, scale) for _ in range(SAMPLES // 1_000)])
            float(torch.logsumexp(log_w, 0) - math.log(SAMPLES))

    serve(job)


def chain(style: str) -> None:
    rows, vae, mask = torch.tensor(bits(2_000)), VAE(), torch.arange(PIXELS) < PIXELS // 2

    def iterate(v: torch.Tensor, filled: torch.Tensor) -> torch.Tensor:
        mean, log_variance = vae.encode(filled)
        logits = vae.decode(mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean))
        return torch.where(mask, v, torch.bernoulli(torch.sigmoid(logits)))

    iteration = torch.compile(iterate) if style == "compile" else iterate

    @torch.no_grad()
    def job(n: int) -> None:
        results = []
        for start in range(0, n, 200):
            v = rows[start : min(start + 200, n)]
            filled = torch.where(mask, v, torch.bernoulli(torch.sigmoid(vae.decode(torch.randn(len(v), LATENTS)))))
            for _ in range(CHAIN):
                filled = iteration(v, filled)
            results.append(filled)
        torch.cat(results).numpy()

    serve(job)


def sample(style: str) -> None:
    vae = VAE()

    @torch.no_grad()
    def job(n: int) -> None:
        rows, means = [], []
        for start in range(0, n, 500):
            means.append(torch.sigmoid(vae.decode(torch.randn(min(500, n - start), LATENTS))))
            rows.append(torch.bernoulli(means[-1]))
        torch.cat(rows).numpy(), torch.cat(means).numpy()

    serve(job)


if __name__ == "__main__":
    torch.manual_seed(0)
    {"step": step, "likelihood": likelihood, "chain": chain, "sample": sample}[sys.argv[1]](sys.argv[2])
