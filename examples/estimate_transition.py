"""Estimates T(x) from noisy data alone, checks it, saves it and draws it.

`python examples/estimate_transition.py FOLDER` writes transition.safetensors, transition.png with
the part transitions and parts.png with the parts themselves into FOLDER.
"""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import ptd_ext
from ptd_ext.plot import plot_part_images, plot_parts

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
pixels, labels = load_digits(return_X_y=True)
noise = ptd_ext.instance_dependent_noise(pixels, labels, 0.3, random_state=0)
print(f"{noise.realised_rate:.1%} of {len(labels)} labels are wrong")

# P(noisy label | x) from any classifier. A forest's out-of-bag votes come from trees that have not
# seen the sample's label.
forest = RandomForestClassifier(200, min_samples_leaf=5, oob_score=True, random_state=0)
forest.fit(pixels, noise.noisy_labels)
pred_probs = torch.tensor(forest.oob_decision_function_)

# Every image as a mixture of six parts, and its weights h(x). Features of a network serve as well.
nmf = ptd_ext.SimplexNMF(n_parts=6, random_state=0)
weights = torch.as_tensor(nmf.fit_transform(pixels))

# Anchors: images that almost certainly belong to a class. Their pred_probs are rows of T(x).
anchors = ptd_ext.find_anchors(pred_probs, band=(95, 99))
fit = ptd_ext.fit_part_transitions(weights, pred_probs, anchors)
print(fit.diagnose())

# The noise was made here, so that its true rows are known.
error = ptd_ext.transition.approximation_error(noise.rows, noise.labels, weights, fit.parts)
one_matrix = ptd_ext.transition.class_transition(pred_probs, anchors).transition
worse = ptd_ext.transition.approximation_error(noise.rows, noise.labels, None, one_matrix)
print(f"L1 error of the rows of T(x): {error:.3f}; with one matrix for all samples: {worse:.3f}")

learned = ptd_ext.PartTransition(fit.parts, nmf, about={"data": "digits", "rate": 0.3})
learned.save(folder / "transition.safetensors")
again = ptd_ext.PartTransition.load(folder / "transition.safetensors")
print(again, "gives an image's features", list(again.transition(torch.tensor(pixels[:1])).shape))

plot_parts(learned.parts, columns=6).figure.savefig(folder / "transition.png", dpi=120)
axes, _ = plot_part_images(weights, pixels, image_shape=(8, 8), columns=6)
axes.figure.savefig(folder / "parts.png", dpi=120)
