"""What one asks of a trained model: likelihoods, new rows, reconstructions, latents, and what belongs in the holes."""

from dlgm.inference.embedding import Embedding, embed
from dlgm.inference.generation import Latents, Samples, conditional_means, posterior_moments, reconstruct, sample
from dlgm.inference.imputation import Imputation, OverImputation, Pooled, denoise, impute, over_impute
from dlgm.inference.likelihood import Likelihood, log_likelihood
from dlgm.inference.posterior_grid import PosteriorGrid, posterior_grid

__all__ = [
    "Embedding",
    "Imputation",
    "Latents",
    "Likelihood",
    "OverImputation",
    "Pooled",
    "PosteriorGrid",
    "Samples",
    "conditional_means",
    "denoise",
    "embed",
    "impute",
    "log_likelihood",
    "over_impute",
    "posterior_grid",
    "posterior_moments",
    "reconstruct",
    "sample",
]
