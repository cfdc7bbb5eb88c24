"""The loss in a skorch classifier, which is a scikit-learn estimator: `pip install skorch`."""

import torch
from noisy_digits import noisy_digits, perceptron
from skorch import NeuralNet

import ptd_ext


class NoisyLabelNet(NeuralNet):
    def get_loss(self, y_pred, y_true, *args, **kwargs):
        # y carries the weights h(x) beside the label: [label, h₁, …, h_R].
        noisy_labels, weights = y_true[:, 0].long(), y_true[:, 1:]
        return self.criterion_(y_pred, noisy_labels, weights)

    def predict(self, X):  # noqa: N803
        return self.predict_proba(X).argmax(1)


torch.manual_seed(0)
data = noisy_digits()
net = NoisyLabelNet(
    perceptron(),
    ptd_ext.ForwardLoss,
    criterion__parts=data.parts,
    optimizer=torch.optim.Adam,
    lr=3e-3,
    batch_size=64,
    max_epochs=15,
    train_split=None,
    verbose=0,
)
net.fit(data.images, torch.cat([data.noisy_labels[:, None].float(), data.weights], 1))

right = torch.as_tensor(net.predict(data.test_images)) == data.test_labels
print(f"clean test accuracy {right.float().mean():.1%}")
