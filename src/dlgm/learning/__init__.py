"""Training: objectives, noise, the compiled epoch and the loop around it, and diagnostics of the result."""

from dlgm.learning.checkpoint import CheckpointError, Checkpoints
from dlgm.learning.config import TrainingConfig
from dlgm.learning.diagnostics import Diagnostics, diagnose, gradient_signal_to_noise
from dlgm.learning.evaluation import bounds, mean_bound
from dlgm.learning.importance import ImportanceWeighted
from dlgm.learning.interruption import Interrupted, NonFiniteError
from dlgm.learning.loop import Fitted, fit
from dlgm.learning.mesh import ProcessLostError, make_mesh
from dlgm.learning.noise import Noise
from dlgm.learning.objective import AbstractObjective, FreeEnergy, Terms, minibatch_free_energy
from dlgm.learning.progress import AbstractWatcher, JsonlHistory, TerminalProgress
from dlgm.learning.wake_sleep import WakeSleep

__all__ = [
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
]
