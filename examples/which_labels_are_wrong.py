"""Finds wrong labels, and draws the most doubtful sample of each class.

`python examples/which_labels_are_wrong.py doubtful.png` takes scikit-learn's digits with 20 % of
the labels wrong. The true labels only judge the list at the end.
"""

import sys

from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import ptd_ext

pixels, true_labels = load_digits(return_X_y=True)
noise = ptd_ext.instance_dependent_noise(pixels, true_labels, 0.2, random_state=1)
given_labels = noise.noisy_labels.numpy()

found = ptd_ext.find_label_issues(pixels, given_labels, random_state=0)
print(found)  # the noise rate with its interval, the number of flagged labels, and caveats

doubtful = found.most_doubtful()  # row numbers, the most doubtful first
wrong = given_labels != true_labels
for count in (100, int(wrong.sum())):
    print(f"{wrong[doubtful[:count]].mean():.0%} of the {count} most doubtful labels are wrong")

figure = Figure(figsize=(8, 1.3), layout="constrained")
for label, axes in enumerate(figure.subplots(1, 10)):
    row = doubtful[given_labels[doubtful] == label][0]
    axes.imshow(pixels[row].reshape(8, 8), cmap="gray_r")
    axes.set_title(f"labelled {label}\nrather {found.suggested_label[row]}", fontsize=9)
    axes.set_axis_off()
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "doubtful.png", dpi=120)
