"""Draw idea.png: an image as a mixture of parts, and its T(x) as the same mixture of matrices.

python docs/images/draw_idea.py FILE
"""

import sys

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import ptd_ext

SAMPLE, PARTS = 7, 4
pixels, labels = load_digits(return_X_y=True)
noise = ptd_ext.instance_dependent_noise(pixels, labels, 0.3, random_state=0)
forest = RandomForestClassifier(200, oob_score=True, random_state=0)
pred_probs = torch.tensor(forest.fit(pixels, noise.noisy_labels).oob_decision_function_)
nmf = ptd_ext.SimplexNMF(n_parts=PARTS, compactness=1e-3, random_state=0)
weights = torch.as_tensor(nmf.fit_transform(pixels))
anchors = ptd_ext.find_anchors(pred_probs, band=(94, 99))
parts = ptd_ext.fit_part_transitions(weights, pred_probs, anchors, ridge=0.02).parts
T = ptd_ext.ops.transition_matrix(weights, parts)[SAMPLE]

figure = Figure(figsize=(9, 3.4), layout="constrained")
grid = figure.subplots(2, PARTS + 1)
grid[0, 0].imshow(pixels[SAMPLE].reshape(8, 8), cmap="gray_r")
grid[0, 0].set_title("x  ≈", fontsize=11)
grid[1, 0].imshow(T, cmap="Blues", vmin=0, vmax=1)
grid[1, 0].set_title("T(x)  =", fontsize=11)
for j in range(PARTS):
    sign = "" if j == 0 else "+  "
    weight = f"{sign}{weights[SAMPLE, j]:.2f} ·"
    grid[0, j + 1].imshow(nmf.components_[j].reshape(8, 8), cmap="gray_r")
    grid[0, j + 1].set_title(f"{weight} part {j + 1}", fontsize=11)
    grid[1, j + 1].imshow(parts[j], cmap="Blues", vmin=0, vmax=1)
    grid[1, j + 1].set_title(f"{weight} P$^{j + 1}$", fontsize=11)
for axes in grid.flat:
    axes.set_xticks([])
    axes.set_yticks([])
figure.savefig(sys.argv[1], dpi=110)
