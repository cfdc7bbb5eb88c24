"""The network for NEWS: word vectors, three convolutions over the text, one full layer."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, KERNEL, POOL = 128, 5, 5


class NewsConv(nn.Module):
    """Three 1-D convolutions with ReLU on word vectors, the maximum over the text, a linear layer.

    The paper specifies three convolutional layers and one fully connected layer. Width, kernel and
    pooling are those of the usual example of GloVe on these messages: 128 channels, kernel 5,
    after the first two layers the maximum of every 5 positions. The maximum over the remaining
    positions is the representation. The vectors, float [V, D] with padding in row 0, are frozen:
    they have many times the parameters of the rest.
    """

    def __init__(self, n_classes: int, embedding: Tensor) -> None:
        super().__init__()
        if embedding.dim() != 2 or not embedding.is_floating_point():
            raise ValueError(
                f"embedding must be floats [V, D]; got {embedding.dtype} {list(embedding.shape)}."
            )
        # Each network has a copy, so that two that train together do not share it.
        self.embedding = nn.Embedding.from_pretrained(embedding.clone(), padding_idx=0)
        widths = (embedding.shape[1], WIDTH, WIDTH, WIDTH)
        # Inputs are padded, so that even a text of one word passes all three convolutions.
        self.conv1, self.conv2, self.conv3 = (
            nn.Conv1d(before, after, KERNEL, padding=KERNEL // 2)
            for before, after in pairwise(widths)
        )
        self.fc = nn.Linear(WIDTH, n_classes)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The representation [N, 128] and the logits [N, C] of tokens [N, L]."""
        x = self.embedding(tokens).transpose(1, 2)
        # The maximum of ReLUs is the ReLU of the maximum: pooling first leaves a fifth of them.
        x = F.relu(F.max_pool1d(self.conv1(x), POOL, ceil_mode=True))
        x = F.relu(F.max_pool1d(self.conv2(x), POOL, ceil_mode=True))
        representation = F.relu(self.conv3(x).amax(2))
        return representation, self.fc(representation)
