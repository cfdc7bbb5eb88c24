"""Trains on your own data: one .npz file, one command, one CSV of doubtful labels.

`python examples/own_data.py FOLDER` makes a table of 4,000 rows, 20 features and four classes, with
35 % of the labels wrong, trains with `ptd-ext train`, and reads the most doubtful labels.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification

import ptd_ext

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "own_data")
folder.mkdir(exist_ok=True)

rows, true_labels = make_classification(
    4000, 20, n_informative=10, n_classes=4, class_sep=1.5, flip_y=0, random_state=0
)
noise = ptd_ext.noise.pairwise_noise(true_labels, 0.35, random_state=0)

# x: rows [N, D] of numbers, or images, uint8 or float. y: integers from 0, or strings. Without
# x_test and y_test a random fifth is set apart for testing; its labels are then as noisy as the
# rest.
np.savez(
    folder / "table.npz",
    x=rows[:3000].astype(np.float32),
    y=noise.noisy_labels[:3000].numpy(),
    x_test=rows[3000:].astype(np.float32),
    y_test=true_labels[3000:],
)

# In a shell: ptd-ext train own_data/table.npz --against CE …
command = f"train {folder}/table.npz --out {folder}/run --no-progress"
flags = f"{command} --against CE --test-labels clean".split()
subprocess.run([sys.executable, "-m", "ptd_ext", *flags], check=True)

# Every label, in the order of the file; `id` is the row of x.
run = ptd_ext.TrainedRun.load(folder / "run")
found = run.label_issues
wrong = found.given_label != true_labels[found.ids]
doubtful = found.most_doubtful()[:300]
print(f"{wrong[doubtful].sum()} of the 300 most doubtful labels are wrong")
print(f"estimated noise rate {found.noise_rate.overall}, true one {wrong.mean():.1%}")
print("predicted:", run.predict(rows[3000:3005]), "true:", true_labels[3000:3005])
