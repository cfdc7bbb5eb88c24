"""The names that the snippets of the documentation use without defining them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import ptd_ext

N, C, R, D = 120, 3, 2, 6


def names(folder: Path) -> dict[str, Any]:
    """Small data of every kind, and the files that snippets read from `folder`."""
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(N) % C
    features = torch.randn(N, D, generator=g) + 4 * torch.eye(C, D)[labels]
    noise = ptd_ext.instance_dependent_noise(features, labels, 0.2, random_state=0)
    network = torch.nn.Linear(D, C)
    network.weight.data.copy_(torch.eye(C, D))
    logits = network(features).detach()
    pred_probs = logits.softmax(1)
    weights = torch.rand(N, R, generator=g).softmax(1)
    fit = ptd_ext.fit_part_transitions(weights, pred_probs, ptd_ext.find_anchors(pred_probs))
    texts = [f"{('cat meows', 'dog barks', 'cow moos')[c]} {'a b c d'[n % 7]}" for n, c in
             enumerate(labels.tolist())]  # fmt: skip
    y = np.array(["cat", "dog", "cow"])[noise.noisy_labels.numpy()]
    decisions = {"id": [3, 5], "given_label": y[[3, 5]], "decision": ["wrong", "unsure"]}
    pd.DataFrame(decisions).to_csv(folder / "decisions.csv", index=False)
    choice = {"from_name": "label", "type": "choices", "value": {"choices": ["dog"]}}
    tasks = [{"data": {"id": 7}, "annotations": [{"result": [choice], "was_cancelled": False}]}]
    (folder / "project-1-export.json").write_text(json.dumps(tasks), encoding="utf-8")
    np.save(folder / "features.npy", features.numpy())
    np.save(folder / "pred_probs.npy", pred_probs.numpy())
    X = features.double().numpy()  # noqa: N806
    photos = np.repeat(X[:, :3, None, None], 16, 2).repeat(16, 3).astype(np.float32)
    return {
        "X": X,
        "embeddings": X,
        "features": features,
        "fit": fit,
        "images": features,
        "labels": noise.noisy_labels,
        "logits": logits,
        "network": network,
        "new_X": X[:5],
        "new_features": features[:5],
        "noisy_labels": noise.noisy_labels,
        "np": np,
        "parts": fit.parts,
        "pd": pd,
        "photos": photos,
        "pred_probs": pred_probs,
        "probabilities": pred_probs.double().numpy(),
        "ptd_ext": ptd_ext,
        "sample_weight": torch.rand(N, generator=g),
        "texts": texts,
        "torch": torch,
        "weights": weights,
        "y": y,
    }
