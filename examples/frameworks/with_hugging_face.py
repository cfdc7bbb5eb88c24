"""The loss in the Hugging Face Trainer: `pip install transformers accelerate`.

A small vision transformer; a text model goes the same way, with its tokens in place of the pixels.
"""

import tempfile

import torch
from noisy_digits import noisy_digits
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

import ptd_ext

data = noisy_digits()


class NoisyLabelTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        weights, noisy_labels = inputs.pop("weights"), inputs.pop("labels")
        outputs = model(**inputs)
        parts = data.parts.to(outputs.logits.device)
        loss = ptd_ext.forward_loss(outputs.logits, noisy_labels, weights, parts)
        return (loss, outputs) if return_outputs else loss


# A sample carries its weights h(x) beside its label.
samples = [
    {"pixel_values": image.view(1, 8, 8), "labels": label, "weights": weights}
    for image, label, weights in zip(data.images, data.noisy_labels, data.weights, strict=True)
]
torch.manual_seed(0)
model = ViTForImageClassification(
    ViTConfig(
        image_size=8, patch_size=4, num_channels=1, num_labels=10, hidden_size=48,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
    )
)  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, num_train_epochs=25, per_device_train_batch_size=64, learning_rate=3e-3,
        remove_unused_columns=False,  # the model does not know the weights
        report_to="none", save_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    NoisyLabelTrainer(model=model, args=arguments, train_dataset=samples).train()

with torch.no_grad():
    logits = model.eval()(data.test_images.view(-1, 1, 8, 8)).logits
print(f"clean test accuracy {(logits.argmax(1) == data.test_labels).float().mean():.1%}")
