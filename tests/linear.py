"""Linear-Gaussian models, whose likelihood, posterior and conditionals are known exactly, as dlgm models."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dlgm.model import Model, build_model, make_observation, preset


@dataclass(frozen=True)
class FactorAnalysis:
    """v = W xi + b + noise of variance psi, xi standard normal. float64 numpy."""

    W: np.ndarray
    b: np.ndarray
    psi: np.ndarray

    @property
    def covariance(self):
        return self.W @ self.W.T + np.diag(self.psi)

    def posterior(self, rows):
        """Means (n, k) and the covariance (k, k) that all rows share."""
        C = np.linalg.inv(np.eye(self.W.shape[1]) + self.W.T @ (self.W / self.psi[:, None]))
        return (rows - self.b) / self.psi @ self.W @ C, C

    def log_prob(self, rows, columns=slice(None)):
        """log p of some of the columns."""
        from scipy.stats import multivariate_normal

        S = self.covariance[columns][:, columns]
        return np.atleast_1d(multivariate_normal(self.b[columns], S).logpdf(rows[:, columns]))

    def sample(self, rng, n):
        xi = rng.normal(size=(n, self.W.shape[1]))
        return xi @ self.W.T + self.b + rng.normal(size=(n, len(self.b))) * np.sqrt(self.psi)

    def model(self, widen=1.0) -> Model:
        """The same as a dlgm model with its exact posterior; `widen` makes its recognition model a little wrong."""
        x, k = self.W.shape
        config = preset("factor-analysis", make_observation("gaussian", columns=x, variance="per-column"), latent=(k,))
        model = build_model(config, key=jax.random.key(0))
        _, C = self.posterior(np.zeros((1, x)))
        A = C @ (self.W / self.psi[:, None]).T
        L = np.linalg.cholesky(C) * widen
        weight = np.zeros((k + k * (k + 1) // 2, x))
        weight[:k] = A
        bias = np.concatenate([-A @ self.b, np.log(np.diag(L)), L[np.tril_indices(k, -1)]])
        floor = model.generative.observation.config()["floor"]
        leaves = (self.W, self.b, np.log(self.psi - floor), weight, bias)
        dtype = jnp.result_type(float)
        return eqx.tree_at(
            lambda m: (
                m.generative.networks[0].layers[0].weight,
                m.generative.networks[0].layers[0].bias,
                m.generative.observation.log_var,
                m.recognition.heads[0].network.layers[0].weight,
                m.recognition.heads[0].network.layers[0].bias,
            ),
            jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, dtype)), model),
            tuple(jnp.asarray(leaf, dtype) for leaf in leaves),
        )


def random_factor_analysis(seed=0, x=5, k=2) -> FactorAnalysis:
    rng = np.random.default_rng(seed)
    return FactorAnalysis(rng.normal(size=(x, k)), rng.normal(size=x), rng.uniform(0.3, 1.0, size=x))
