"""Deep latent Gaussian models: stochastic backpropagation with structured posteriors.

Names are imported when first used, so that `import dlgm` and the command line's `--help` cost next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Which room each public name lives in.
_HOMES = {
    "dlgm.gaussians": (
        "AbstractGaussian",
        "BlockGaussian",
        "DiagonalGaussian",
        "FullGaussian",
        "LowRankGaussian",
        "PrecisionGaussian",
        "RankOneGaussian",
        "as_gaussian",
        "kl_between_gaussians",
        "precision_factors",
    ),
    "dlgm.model": (
        "PRESETS",
        "AbstractObservation",
        "AbstractPosterior",
        "Bernoulli",
        "Categorical",
        "CellRecognition",
        "Composite",
        "DiscretisedLogistic",
        "Gaussian",
        "GenerativeModel",
        "HeapedGaussian",
        "HeapedLogNormal",
        "LogNormal",
        "Logistic",
        "Model",
        "ModelConfig",
        "NegativeBinomial",
        "Ordinal",
        "Poisson",
        "RecognitionModel",
        "StudentT",
        "build_model",
        "initialise",
        "make_observation",
        "observation_from_config",
        "preset",
    ),
    "dlgm.learning": (
        "AbstractObjective",
        "AbstractWatcher",
        "CheckpointError",
        "Checkpoints",
        "Diagnostics",
        "Fitted",
        "FreeEnergy",
        "ImportanceWeighted",
        "Interrupted",
        "JsonlHistory",
        "Noise",
        "NonFiniteError",
        "ProcessLostError",
        "TerminalProgress",
        "Terms",
        "TrainingConfig",
        "WakeSleep",
        "bounds",
        "diagnose",
        "fit",
        "gradient_signal_to_noise",
        "make_mesh",
        "mean_bound",
        "minibatch_free_energy",
    ),
    "dlgm.estimators": ("DLGM", "DLGMImputer"),
    "dlgm.tables": ("TableImputation", "TableModel", "fit_table"),
    "dlgm.inference": (
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
    ),
    "dlgm.data": (
        "ArraySource",
        "Column",
        "DataError",
        "DataFetchError",
        "DataFileError",
        "DataNotFoundError",
        "Dataset",
        "DatasetInfo",
        "Fetched",
        "Located",
        "RowSource",
        "Schema",
        "SchemaError",
        "Table",
        "UnknownDatasetError",
        "fetch_datasets",
        "find_dataset",
        "hide_at_random",
        "hide_by_others",
        "hide_by_themselves",
        "hide_square",
        "infer_schema",
        "list_datasets",
        "load_dataset",
        "read_column",
        "read_frame",
        "read_schema",
        "read_table",
        "write_schema",
    ),
    "dlgm.artifact": ("ModelDescription", "ModelFileError", "SavedModel", "describe_model", "load_model", "save_model"),
    "dlgm.stochastic": (
        "AbstractBaseline",
        "AbstractEstimator",
        "BonnetPrice",
        "BonnetPriceHVP",
        "ConstantBaseline",
        "ExponentialFamily",
        "Implicit",
        "LeaveOneOut",
        "NoBaseline",
        "OptimalCoefficient",
        "Pathwise",
        "ProductRule",
        "Reinforce",
        "RunningMean",
        "expect",
        "per_sample_gradients",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)

if TYPE_CHECKING:
    from dlgm.artifact import *  # noqa: F403
    from dlgm.data import *  # noqa: F403
    from dlgm.estimators import *  # noqa: F403
    from dlgm.gaussians import *  # noqa: F403
    from dlgm.inference import *  # noqa: F403
    from dlgm.learning import *  # noqa: F403
    from dlgm.model import *  # noqa: F403
    from dlgm.stochastic import *  # noqa: F403
    from dlgm.tables import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if f"dlgm.{name}" in _HOMES:
        return import_module(f"dlgm.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'dlgm' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
