"""What one asks of a trained model: likelihoods, new rows, reconstructions, latents, and fills for holes."""

from dlgm.inference.chain import fill
from dlgm.inference.generation import Latents, Samples, conditional_means, posterior_moments, reconstruct, sample
from dlgm.inference.likelihood import Likelihood, log_likelihood

__all__ = [
    "Latents",
    "Likelihood",
    "Samples",
    "conditional_means",
    "fill",
    "log_likelihood",
    "posterior_moments",
    "reconstruct",
    "sample",
]
