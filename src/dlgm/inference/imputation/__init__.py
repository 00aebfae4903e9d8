"""What belongs in the holes: draws from p(missing | observed), with what they say and how far to trust them."""

from dlgm.inference.imputation.denoise import denoise
from dlgm.inference.imputation.impute import METHODS, impute
from dlgm.inference.imputation.over_imputation import OverImputation, over_impute
from dlgm.inference.imputation.pooling import Pooled
from dlgm.inference.imputation.result import Imputation

__all__ = ["METHODS", "Imputation", "OverImputation", "Pooled", "denoise", "impute", "over_impute"]
