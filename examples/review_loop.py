"""The review loop: find wrong labels, measure the list, review 200 rows, and train again.

`python examples/review_loop.py` takes scikit-learn's digits with 30 % of the labels wrong. The true
labels stand for the reviewer.
"""

from sklearn.datasets import load_digits

import ptd_ext
from ptd_ext.label_issues import read_decisions

pixels, true_labels = load_digits(return_X_y=True)
train, test = slice(0, 1300), slice(1300, None)
noise = ptd_ext.instance_dependent_noise(pixels[train], true_labels[train], 0.3, random_state=1)
given_labels = noise.noisy_labels.numpy()
wrong = given_labels != true_labels[train]


def review(audit):
    """The reviewer's answers: the true label of every row of the audit."""
    return {row: true_labels[row] for row in audit.ids.tolist()}


# Find the wrong labels, and draw a random sample before anyone looks at the list.
before = ptd_ext.PTDClassifier(network="linear", epochs=15).fit(pixels[train], given_labels)
found = before.label_issues_
audit = found.audit(200)
answers = review(audit)
first = found.evaluate(answers, audit=audit)
print(first)

# The answers are verified labels: train again with them, and measure the new list.
after = ptd_ext.PTDClassifier(network="linear", epochs=15)
after.fit(pixels[train], given_labels, verified=answers)
again = after.label_issues_
audit = again.audit(200, random_state=1)
second = again.evaluate(review(audit), audit=audit)

rows = [
    ("estimated noise rate", first.estimated.overall, second.estimated.overall),
    ("measured noise rate", first.noise_rate.overall, second.noise_rate.overall),
    ("measured precision", first.precision, second.precision),
    ("measured recall", first.recall, second.recall),
]
print(f"\n{'':22}{'before':28}after 200 reviewed rows")
for name, one, other in rows:
    print(f"{name:22}{one!s:28}{other}")
print(f"{'true noise rate':22}{wrong.mean():<28.1%}{wrong.mean():.1%}")
scores = [model.score(pixels[test], true_labels[test]) for model in (before, after)]
print(f"{'accuracy on new rows':22}{scores[0]:<28.1%}{scores[1]:.1%}")

# Clean the labels by what was decided, and by nothing else.
decisions = read_decisions(answers, found.ids, found.given_labels())
cleaned = found.apply(decisions)
print(f"\n{cleaned}; {(cleaned.labels != true_labels[train]).mean():.1%} are wrong")
