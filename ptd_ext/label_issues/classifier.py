"""A classifier for labels that are partly wrong, in scikit-learn's manner."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.utils.data import Dataset

from ptd_ext.label_issues._parameters import LEAST_ROWS, check_classes, check_parameters
from ptd_ext.label_issues.chance import CLEARLY, beats_chance_on_few_rows, chance_warning
from ptd_ext.label_issues.findings import LabelIssues, judge
from ptd_ext.label_issues.inputs.encoder import InputEncoder, from_dataset, row_ids
from ptd_ext.label_issues.inputs.features import extract_features
from ptd_ext.label_issues.inputs.labels import encode_labels
from ptd_ext.label_issues.training.in_memory import (
    Trained,
    candidate_networks,
    fitting_settings,
    split_rows,
    train_network,
)
from ptd_ext.label_issues.training.members import judge_rows
from ptd_ext.train.methods.registry import METHODS
from ptd_ext.utils.bounded_files import shortened
from ptd_ext.utils.chosen_device import chosen_device
from ptd_ext.utils.params import seed_of

__all__ = ["PTDClassifier"]

_MUCH_BETTER = 0.1  # nats of log-likelihood a row


def _chosen(found: Sequence[Trained]) -> list[Trained]:
    """The networks to judge by, out of all from the simplest to the largest; the best comes first.

    A larger network joins if it explains held-out labels better: the mean of two networks that
    explain them about alike ranks rows better than either. If it explains them much better, it
    replaces the smaller ones.
    """
    chosen = [found[0]]
    for other in found[1:]:
        gain = (other.held_out_likelihood - chosen[0].held_out_likelihood).double()
        error = gain.std(correction=0).item() / len(gain) ** 0.5
        if gain.mean().item() > max(_MUCH_BETTER, CLEARLY * error):
            chosen = [other]
        elif gain.mean().item() > 0:
            chosen.insert(0, other)
    return chosen


class PTDClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns the true classes from labels of which some are wrong, and says which.

    A network is warmed up on the given labels, the noise is estimated, and a network is trained
    through T(x), the probabilities of a wrong label. Epochs, and for tables the networks, are
    chosen by the likelihood of given labels that are held out: no clean label is needed. Several
    networks judge by the mean of their probabilities.

    Args:
        method: a method of the training engine that estimates T or T(x); ``ptd-ext train --list``
            lists them.
        network: "linear", "mlp", "lenet5", "resnet18", … or ``package.module:function``. By default
            a linear and a small MLP for tables and embeddings, of which the MLP is left out if it
            explains held-out labels worse, and taken alone if it does so much better; LeNet-5 for
            images of up to 40 pixels a side and a ResNet-18 up to 96.
        n_parts: the number of parts of T(x), for methods that have several.
        max_epochs: epochs of each stage of training; by default 10 to 100, fewer for more rows.
        validation_fraction: share of rows held out for model selection; by default 0.1 to 0.3.
        feature_extractor: for large images: a function from a batch [n, channels, height, width] to
            features [n, D], or the file of a ResNet's weights in torchvision's names.
        flag_share: as in :func:`ptd_ext.find_label_issues`.
        random_state: seed, or a generator of NumPy or torch.
        device: the device to train on; by default a GPU if there is one.
        progress: true prints a line for every epoch, "bar" shows a progress bar (with tqdm).

    Attributes:
        classes_: the labels, [C].
        label_issues_: every row of `fit` judged, :class:`ptd_ext.LabelIssues`.
        noise_rate_: the estimated share of wrong labels, overall and by class.
        transition_: the mean of T(x) over the rows of `fit`, [C, C].
        network_name_: the network, or the networks, that were chosen.
        n_features_in_: the number of columns of X.
        feature_names_in_: the names of the columns, if X has names.
    """

    classes_: NDArray[Any]
    label_issues_: LabelIssues
    n_features_in_: int

    def __init__(
        self,
        method: str = "PTD-L",
        *,
        network: str = "auto",
        n_parts: int = 10,
        max_epochs: int | None = None,
        validation_fraction: float | None = None,
        feature_extractor: Any = None,
        flag_share: float = 1.0,
        random_state: Any = None,
        device: Any = None,
        progress: bool | str = False,
    ) -> None:
        self.method = method
        self.network = network
        self.n_parts = n_parts
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.feature_extractor = feature_extractor
        self.flag_share = flag_share
        self.random_state = random_state
        self.device = device
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> PTDClassifier:  # noqa: N803
        """Learn from rows X and their given labels y, and judge every one of them.

        Args:
            X: an array, a tensor, a data frame, a sparse matrix, images [N, channels, height,
                width], or a torch Dataset, whose own labels are taken where y is None.
            y: [N], of any hashable kind.
        """
        check_parameters(self)
        if isinstance(X, Dataset):
            X, own = from_dataset(X)  # noqa: N806
            y = own if y is None else y
        if y is None:
            raise ValueError(
                "This PTDClassifier estimator requires y to be passed, but the target y is None."
            )
        self._set_names(X)
        seed = seed_of(self.random_state)
        self.encoder_, inputs = InputEncoder.fit(self._features(X), seed)
        self.n_features_in_ = self.encoder_.given_columns
        if getattr(y, "ndim", 1) == 2:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected.",
                DataConversionWarning,
                stacklevel=2,
            )
        labels = encode_labels(y)
        self._check_rows(inputs, labels.codes, labels.classes)
        codes = torch.from_numpy(labels.codes)
        split = split_rows(codes, len(labels.classes), self.validation_fraction, seed)
        device = chosen_device(self.device)
        names = candidate_networks(inputs.shape[1:]) if self.network == "auto" else (self.network,)
        found = [
            train_network(
                inputs, codes, labels.names, split,
                fitting_settings(
                    len(split[0]), method=self.method, network=name,
                    parts=1 if METHODS[self.method].one_matrix else self.n_parts,
                    epochs=self.max_epochs, seed=seed,
                ),
                device, progress=self.progress,
            )
            for name in names
        ]  # fmt: skip
        chosen = _chosen(found)
        self.classes_, self.input_shape_ = labels.classes, inputs.shape[1:]
        # Table rows are predicted in float64, so that a row's result hardly depends on its batch.
        dtype = torch.float64 if self.encoder_.kind == "table" else torch.float32
        self.members_ = [each.member.to(dtype) for each in chosen]
        self.network_name_ = " and ".join(member.name for member in self.members_)
        said = judge_rows(self.members_, inputs, codes)
        several = len(said.parts) > len(chosen)
        trusted, doubts, facts = self._judgement(chosen[0], inputs, codes, split[1])
        self.label_issues_ = judge(
            said.posterior.float().numpy(), labels, said.transition.double().numpy(),
            joint=said.joint.double().numpy(), ids=row_ids(X, len(inputs)),
            flag_share=self.flag_share, trusted=trusted,
            parts=said.parts.double().numpy() if several else None,
            part_shares=said.part_shares.double().numpy() if several else None,
            warnings=doubts, facts=facts, curves=chosen[0].curves,
        )  # fmt: skip
        self.noise_rate_ = self.label_issues_.noise_rate
        self.transition_ = self.label_issues_.transition
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """P(true class | x), [N, C]."""
        check_is_fitted(self)
        return self._clean_probabilities(self.encode(X)).numpy()

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable true class of every row, [N]."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(1)]

    def transition(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """T(x) of every row, [N, C, C]: how likely a row of each class is to carry each label."""
        check_is_fitted(self)
        inputs = self.encode(X)
        found = [m.transition.matrix(weights=m.outputs(inputs)[1]) for m in self.members_]
        return torch.stack(found).mean(0).double().numpy()

    def encode(self, X: Any) -> Tensor:  # noqa: N803
        """The rows as the networks take them: features extracted, scaled as in `fit`."""
        check_is_fitted(self)
        if isinstance(X, Dataset):
            X = from_dataset(X)[0]  # noqa: N806
        return self.encoder_.encode(self._features(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what `predict`, `predict_proba` and `transition` need, as safetensors."""
        from ptd_ext.label_issues.files.classifier_file import save_classifier

        check_is_fitted(self)
        save_classifier(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, network: str | None = None) -> PTDClassifier:
        """Read what :meth:`save` wrote; no code of the file is run.

        A network of your own, `package.module:function`, is imported only if `network` names it.
        """
        from ptd_ext.label_issues.files.classifier_file import load_classifier

        return load_classifier(cls, path, network)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Checks and encoding of the arguments.

    def _check_rows(self, inputs: Tensor, codes: NDArray[np.int64], classes: Any) -> None:
        if len(inputs) != len(codes):
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: X has "
                f"{len(inputs)} rows and y {len(codes)} labels."
            )
        if len(classes) < 2:
            raise ValueError(
                "y must hold at least two classes, one class cannot be wrong; got "
                f"{shortened(classes.tolist())}."
            )
        if len(inputs) < LEAST_ROWS:
            raise ValueError(
                f"X must have at least {LEAST_ROWS} samples to learn from; got {len(inputs)}."
            )
        check_classes(len(classes), self.n_parts)

    def _set_names(self, X: Any) -> None:  # noqa: N803
        columns = getattr(X, "columns", None)
        if columns is not None and all(isinstance(name, str) for name in columns):
            self.feature_names_in_ = np.asarray(columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _features(self, X: Any) -> Any:  # noqa: N803
        if self.feature_extractor is None:
            return X
        return extract_features(X, self.feature_extractor)

    def _clean_probabilities(self, inputs: Tensor) -> Tensor:
        found = [member.outputs(inputs)[0].softmax(1) for member in self.members_]
        return torch.stack(found).mean(0)

    def _judgement(
        self, best: Trained, inputs: Tensor, codes: Tensor, held_out: Tensor
    ) -> tuple[bool, tuple[str, ...], dict[str, str]]:
        """Check that the network is clearly better than chance; if not, also return a warning."""
        accuracy, likelihood = best.warm_up_accuracy, best.held_out_likelihood
        warning = chance_warning("The network", accuracy, codes, codes[held_out], likelihood)
        if warning is not None:
            predicted = self._clean_probabilities(inputs).argmax(1)
            if beats_chance_on_few_rows(inputs, codes, predicted):
                warning = None
        facts = {
            "rows": f"{len(codes):,}",
            "classes": f"{len(self.classes_)}",
            "method": self.method,
            "network": self.network_name_,
            "accuracy on given labels of held-out rows": f"{accuracy:.1%}",
        }
        return warning is None, () if warning is None else (warning,), facts
