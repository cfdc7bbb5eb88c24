"""The loss in a LightningModule: `pip install lightning`, `python with_lightning.py`."""

import lightning
import torch
from noisy_digits import noisy_digits, perceptron
from torch.utils.data import DataLoader, TensorDataset

import ptd_ext


class Classifier(lightning.LightningModule):
    def __init__(self, parts):
        super().__init__()
        self.network = perceptron()
        # As a module the loss moves with the classifier, and ΔT is one of its parameters.
        self.criterion = ptd_ext.ForwardLoss(parts, revision=True)

    def forward(self, images):
        return self.network(images)

    def training_step(self, batch, _):
        images, noisy_labels, weights = batch
        loss = self.criterion(self(images), noisy_labels, weights)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        slack = {"params": self.criterion.parameters(), "lr": 1e-4}
        return torch.optim.Adam([{"params": self.network.parameters()}, slack], lr=3e-3)


lightning.seed_everything(0)
data = noisy_digits()
classifier = Classifier(data.parts)
# A sample carries its weights h(x) beside its label.
samples = TensorDataset(data.images, data.noisy_labels, data.weights)
trainer = lightning.Trainer(
    max_epochs=15, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(classifier, DataLoader(samples, batch_size=64, shuffle=True))

with torch.no_grad():
    right = classifier(data.test_images).argmax(1) == data.test_labels
print(f"clean test accuracy {right.float().mean():.1%}")
