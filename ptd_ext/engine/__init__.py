"""Training with noisy labels: rows and labels become a FittedModel, which predicts and judges."""

from ptd_ext.engine.model.fit import fit
from ptd_ext.engine.model.fitted_model import FittedModel, Validation
from ptd_ext.engine.model.members import Judgement
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.settings.settings import Settings

__all__ = [
    "FittedModel",
    "Judgement",
    "Preprocessing",
    "Settings",
    "TrainingData",
    "Validation",
    "fit",
]
