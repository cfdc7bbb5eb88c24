"""A classifier for labels that are partly wrong, in scikit-learn's manner."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted
from torch.utils.data import Dataset

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.engine.model.fit import fit
from ptd_ext.engine.model.fitted_model import FittedModel
from ptd_ext.engine.model.progress import TrainingProgress
from ptd_ext.engine.rows.columns import Columns, has_columns
from ptd_ext.engine.rows.copies import groups_of_copies
from ptd_ext.engine.rows.encoders import encode
from ptd_ext.engine.rows.labels import GivenLabels, encode_labels, row_ids
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.split import hold_out, split_data, with_copies
from ptd_ext.engine.rows.torch_dataset import read_dataset
from ptd_ext.engine.settings.schedule import candidates
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.training.placement import Placement
from ptd_ext.label_issues._parameters import MIN_ROWS, check_classes, check_parameters
from ptd_ext.label_issues.caveats import copies_caveats, leaking_columns
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.judging import judge_labels
from ptd_ext.label_issues.mix_ups import check_rows_and_labels
from ptd_ext.label_issues.review.read import read_decisions
from ptd_ext.label_issues.review.recalibrate import update, update_retrained
from ptd_ext.transition.learned_parts import N_PARTS
from ptd_ext.utils.arguments import check_same_index
from ptd_ext.utils.bounded_files import reason, shortened
from ptd_ext.utils.chosen_device import chosen_device
from ptd_ext.utils.distributed import Ranks
from ptd_ext.utils.params import seed_of

_MAX_RATE = 0.9  # in units of the rate at which labels are random
_STORED = (bool, int, float, str, type(None))
_SHOWN_CLASSES = 10  # in a notebook
# Parameters that describe this machine or hold code: a file neither stores nor sets them.
_NOT_STORED = ("device", "encoder", "progress")


class PTDClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns true classes from labels, some of which are wrong, and finds the wrong ones.

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
        epochs: epochs of each stage of training; by default 10 to 100, fewer for more rows.
        validation_fraction: share of rows held out for model selection; by default 0.1 to 0.3.
        encoder: a pretrained network whose embeddings of texts or images are learned from:
            "sentence-transformers:NAME", "timm:NAME" or "torchvision:NAME", read from your cache or
            from a path (NAME@FILE for the weights of a network of timm or torchvision); a function
            from a batch [n, channels, height, width] to embeddings [n, D]; or the file of a
            ResNet's weights in torchvision's names.
        columns: the columns of a data frame to learn from, also if they look like ids; by default
            all that are of use.
        ignore: columns of a data frame not to learn from.
        flag_share: as in :func:`ptd_ext.find_label_issues`.
        random_state: seed, or a generator of NumPy or torch.
        device: the device to train on; by default a GPU if there is one.
        progress: true prints a line for every epoch, "bar" shows a progress bar (with tqdm); false,
            the default as in scikit-learn's estimators, prints nothing.

    Attributes:
        classes_: the labels, [C].
        label_issues_: every row of `fit` judged, :class:`ptd_ext.LabelIssues`.
        noise_rate_: the estimated share of wrong labels, overall and by class.
        transition_: the mean of T(x) over the rows of `fit`, [C, C].
        model_: the networks, T(x) and preprocessing, :class:`ptd_ext.engine.FittedModel`.
        network_name_: the network, or the networks, that were chosen.
        n_features_in_: the number of columns of X.
        feature_names_in_: the names of the columns, if X has names.

    Examples:
        >>> generator = np.random.default_rng(0)
        >>> y = np.repeat(["cat", "dog"], 100)
        >>> X = generator.normal(size=(200, 4)) + 4 * (y == "dog")[:, None]
        >>> model = ptd_ext.PTDClassifier(network="linear").fit(X, y)
        >>> model.predict([[0, 0, 0, 0], [4, 4, 4, 4]])
        array(['cat', 'dog'], dtype='<U3')
    """

    classes_: NDArray[Any]
    label_issues_: LabelIssues
    model_: FittedModel
    n_features_in_: int

    def __init__(
        self,
        method: str = "PTD-L",
        *,
        network: str = "auto",
        n_parts: int = N_PARTS,
        epochs: int | None = None,
        validation_fraction: float | None = None,
        encoder: Any = None,
        columns: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        flag_share: float = 1.0,
        random_state: Any = 0,
        device: Any = None,
        progress: bool | str = False,
    ) -> None:
        self.method = method
        self.network = network
        self.n_parts = n_parts
        self.epochs = epochs
        self.validation_fraction = validation_fraction
        self.encoder = encoder
        self.columns = columns
        self.ignore = ignore
        self.flag_share = flag_share
        self.random_state = random_state
        self.device = device
        self.progress = progress

    def fit(self, X: Any, y: Any = None, *, verified: Any = None) -> PTDClassifier:  # noqa: N803
        """Learn from rows X and their given labels y, and judge every one of them.

        Args:
            X: an array, a tensor, a data frame, a sparse matrix, a list of texts, images
                [N, channels, height, width], or a torch Dataset, whose own labels are taken where
                y is None. What becomes of each column of a data frame is in
                ``label_issues_.notes``.
            y: [N], of any hashable kind.
            verified: labels that reviewers verified, in the forms of
                :func:`ptd_ext.label_issues.read_decisions`; ids are the index of a data frame, or
                row numbers. The networks are trained once without them, to find the noise rate,
                and once with them.
        """
        return self._fit(X, y, verified)

    def _fit(self, X: Any, y: Any, verified: Any, ids: Any = None) -> PTDClassifier:  # noqa: N803
        check_parameters(self)
        check_rows_and_labels(X, y)
        if isinstance(X, Dataset):
            X, own = read_dataset(X)  # noqa: N806
            y = own if y is None else y
        if y is None:
            raise ValueError(
                "This PTDClassifier estimator requires y to be passed, but the target y is None."
            )
        if getattr(y, "ndim", 1) == 2:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected.",
                DataConversionWarning,
                stacklevel=2,
            )
        check_same_index(X=X, y=y)
        seed = seed_of(self.random_state)
        features = self._features(X)
        table = has_columns(features)
        if not table:
            if self.columns is not None or len(self.ignore):
                raise ValueError(
                    f"columns and ignore must not be given unless X is a data frame; X is of type "
                    f"{type(X).__name__}."
                )
            preprocessing, stored = Preprocessing.fit(features, seed)
        labels = encode_labels(y)
        self._check_rows(len(features) if table else len(stored), labels)
        codes = torch.from_numpy(labels.codes)
        positions = hold_out(codes, self.validation_fraction, seed)
        if table:
            # Held-out rows change neither medians nor categories nor words.
            columns = Columns.fit(
                features,
                rows=positions[0].numpy(),
                seed=seed,
                only=self.columns,
                ignore=self.ignore,
            )
            preprocessing, stored = Preprocessing.fit(features, seed, columns=columns)
        caveats: tuple[str, ...] = ()
        if isinstance(stored, torch.Tensor):
            groups = groups_of_copies(stored)
            positions = with_copies(positions, torch.from_numpy(groups))
            caveats = copies_caveats(groups, labels.codes)
            if table and preprocessing.components is None:
                caveats += leaking_columns(stored, columns, labels.codes)
        data = split_data(
            stored, codes, tuple(labels.names), preprocessing, positions, channels_last=True
        )
        # The rows are judged as they are split, so that no second copy is kept during training.
        order = np.unique(torch.cat(positions).numpy(), return_index=True)[1]
        ids = row_ids(X, len(stored)) if ids is None else ids
        known = None
        if verified is not None:  # checked before the training
            known = read_decisions(verified, ids, labels).codes(ids, labels)
        del stored
        place = Placement(chosen_device(self.device), Ranks())
        candidates = self._candidates(data.train_size, data.sample_shape, seed)
        log = TrainingProgress(self.progress)

        def judged(model: FittedModel) -> LabelIssues:
            return judge_labels(
                model,
                [data.train, data.validation],
                GivenLabels(data.labels().numpy(), labels.classes),
                order=order,
                ids=ids,
                flag_share=self.flag_share,
            )

        model = fit(data, candidates, labels.classes, place, log=log)
        found = judged(model)
        if known is not None:
            before = update(found, known, self.flag_share)
            reviewed = dataclasses.replace(
                data,
                verified=torch.from_numpy(known)[positions[0]],
                noise_rate=min(float(before.noise_rate), _MAX_RATE * (1 - 1 / data.n_classes)),
            )
            model = fit(reviewed, candidates, labels.classes, place, log=log)
            found = update_retrained(judged(model), before, known, self.flag_share)
        found = dataclasses.replace(found, warnings=(*found.warnings, *caveats))
        # Assigned only now, so that a rejected fit leaves the fitted classifier as it was.
        self._set_model(model.to("cpu"))
        self._set_names(X)
        self.label_issues_ = found
        self.noise_rate_ = found.noise_rate
        self.transition_ = found.transition
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """P(true class | x), [N, C]."""
        check_is_fitted(self)
        return self.model_.predict_proba(self._features(X))

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable true class of every row, [N]."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(1)]

    def transition(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """T(x) of every row, [N, C, C]: how likely a row of each class is to carry each label."""
        check_is_fitted(self)
        return self.model_.transition(self._features(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what `predict`, `predict_proba` and `transition` need, as safetensors."""
        check_is_fitted(self)
        parameters = {
            name: value
            for name, value in self.get_params().items()
            if name not in _NOT_STORED and isinstance(value, _STORED)
        }
        dataclasses.replace(self.model_, parameters=parameters).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, network: str | None = None) -> PTDClassifier:
        """Read what :meth:`save` wrote; no code of the file is run.

        Args:
            path: the file.
            network: the name of a network of your own, `package.module:function`. It is imported
                only if it is given here.
        """
        model = FittedModel.load(path, network=network)
        try:
            if set(model.parameters) & set(_NOT_STORED):
                raise ValueError(f"it sets {', '.join(_NOT_STORED)}")
            found = cls(**model.parameters)
            check_parameters(found)
            if ":" in found.network and found.network != network:
                raise ValueError(
                    f"its network is {shortened(found.network)}. If it is your own, give its name "
                    "as network"
                )
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a usable PTDClassifier: {reason(error)}.") from None
        found._set_model(model)
        columns = model.preprocessing.columns
        if columns is not None and not columns.texts:
            found.feature_names_in_ = np.asarray(columns.names, dtype=object)
        return found

    def _html_repr(self) -> str:
        shown = super()._html_repr()
        if not hasattr(self, "classes_"):
            return shown
        if hasattr(self, "label_issues_"):
            return shown + self.label_issues_._repr_html_()
        names = ", ".join(str(label) for label in self.classes_[:_SHOWN_CLASSES])
        more = ", …" if len(self.classes_) > _SHOWN_CLASSES else ""
        return f"{shown}<p>{escape(self.network_name_)}; classes {escape(names)}{more}</p>"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_parts(self) -> int:
        return 1 if METHODS[self.method].one_matrix else self.n_parts

    def _candidates(self, rows: int, shape: torch.Size, seed: int) -> list[Settings]:
        """The settings of each network to try, the simplest network first."""
        advice = (
            'Name a pretrained network, such as encoder="timm:resnet18.a1_in1k", or give a '
            'function that returns its embeddings; or train one, such as network="resnet50".'
        )
        found = candidates(rows, shape, self.network, self.epochs, advice=advice)
        own = {"method": self.method, "n_parts": self._n_parts, "seed": seed, "progress": False}
        defaults = METHODS[self.method].defaults
        return [
            Settings(**{**schedule, **defaults, **own, "network": name})
            for name, schedule in found.items()
        ]

    def _check_rows(self, rows: int, labels: GivenLabels) -> None:
        if rows != len(labels.codes):
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: X has "
                f"{rows} rows and y {len(labels.codes)} labels."
            )
        if len(labels.classes) < 2:
            raise ValueError(
                "y must hold at least two classes, since one class cannot be wrong; got "
                f"{shortened(labels.classes.tolist())}."
            )
        if rows < MIN_ROWS:
            raise ValueError(f"X must have at least {MIN_ROWS} samples to learn from; got {rows}.")
        check_classes(len(labels.classes), self._n_parts)

    def _set_model(self, model: FittedModel) -> None:
        self.model_, self.classes_ = model, model.classes
        self.network_name_ = model.network_name
        self.n_features_in_ = model.preprocessing.n_features

    def _set_names(self, X: Any) -> None:  # noqa: N803
        columns = getattr(X, "columns", None)
        if columns is not None and all(isinstance(name, str) for name in columns):
            self.feature_names_in_ = np.asarray(columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _features(self, X: Any) -> Any:  # noqa: N803
        if self.encoder is None:
            return X
        if isinstance(X, Dataset):
            X = read_dataset(X)[0]  # noqa: N806
        return encode(X, self.encoder)
