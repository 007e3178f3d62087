"""A small vision-language model: a vision transformer, a projector and a causal decoder."""

from __future__ import annotations

from dataclasses import dataclass

import digits_data as data
import torch
from torch import Tensor, nn

PATCH = 2
MERGE = 4  # patches that the projector joins into one feature row, each way
GRID = data.IMAGE_SIZE // PATCH


@dataclass(frozen=True)
class Config:
    """Sizes of the model.

    Attributes:
        width: Features of a patch and of a token, W.
        heads: Attention heads; tensor parallelism divides them.
        vision_blocks: Transformer blocks of the encoder.
        language_blocks: Transformer blocks of the decoder.
    """

    width: int = 64
    heads: int = 4
    vision_blocks: int = 2
    language_blocks: int = 2


class Attention(nn.Module):
    """Self-attention, [N, L, W] -> [N, L, W]."""

    def __init__(self, config: Config, causal: bool) -> None:
        super().__init__()
        self.head_width = config.width // config.heads
        self.causal = causal
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, hidden: Tensor) -> Tensor:
        query, key, value = (
            # Under tensor parallelism a rank holds some of the heads only.
            projection(hidden).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    """Two linear layers with a GELU between them, [..., input] -> [..., output]."""

    def __init__(self, input_width: int, hidden_width: int, output_width: int) -> None:
        super().__init__()
        self.up = nn.Linear(input_width, hidden_width)
        self.down = nn.Linear(hidden_width, output_width)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down(nn.functional.gelu(self.up(hidden)))


class Block(nn.Module):
    """Pre-norm transformer block, [N, L, W] -> [N, L, W]."""

    def __init__(self, config: Config, causal: bool) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = Attention(config, causal)
        self.mlp_norm = nn.LayerNorm(config.width)
        self.mlp = MLP(config.width, 4 * config.width, config.width)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden))
        return hidden + self.mlp(self.mlp_norm(hidden))


class Vision(nn.Module):
    """Encoder and projector: images [N, 8, 8] -> feature rows [N, ROWS_PER_IMAGE, W]."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.patch_embedding = nn.Linear(PATCH * PATCH, config.width)
        self.position_embedding = nn.Parameter(torch.randn(GRID * GRID, config.width) * 0.1)
        self.blocks = nn.ModuleList(
            Block(config, causal=False) for _ in range(config.vision_blocks)
        )
        self.norm = nn.LayerNorm(config.width)
        self.projector = MLP(MERGE * MERGE * config.width, 4 * config.width, config.width)

    def forward(self, images: Tensor) -> Tensor:
        patches = _tiles(images[..., None], PATCH)
        hidden = self.patch_embedding(patches) + self.position_embedding
        for block in self.blocks:
            hidden = block(hidden)
        hidden = self.norm(hidden).unflatten(1, (GRID, GRID))
        return self.projector(_tiles(hidden, MERGE))


class Language(nn.Module):
    """Decoder: tokens [B, S] int64 and feature rows [N, T, W] -> logits [B, S, V].

    The feature rows stand at the IMAGE tokens, in order; there must be N * T of them.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(data.VOCABULARY_SIZE, config.width)
        nn.init.normal_(self.token_embedding.weight, std=0.1)
        self.position_embedding = nn.Parameter(
            torch.randn(data.SEQUENCE_LENGTH, config.width) * 0.1
        )
        self.blocks = nn.ModuleList(
            Block(config, causal=True) for _ in range(config.language_blocks)
        )
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, data.VOCABULARY_SIZE)

    def forward(self, tokens: Tensor, features: Tensor) -> Tensor:
        hidden = self.token_embedding(tokens)
        hidden = hidden.masked_scatter((tokens == data.IMAGE)[..., None], features)
        hidden = hidden + self.position_embedding
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))


class DigitsModel(nn.Module):
    """The whole model: tokens [B, S] int64, images [B, 4, 8, 8] -> logits [B, S, V]."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.visual = Vision(config)
        self.language = Language(config)

    def forward(self, tokens: Tensor, images: Tensor) -> Tensor:
        features = self.visual(images.flatten(0, 1))
        return self.language(tokens, features)


def _tiles(grid: Tensor, size: int) -> Tensor:
    """Joins tiles of size x size cells: [N, G, G, C] -> [N, (G / size)**2, size * size * C]."""
    tiles = grid.unflatten(1, (-1, size)).unflatten(3, (-1, size))
    return tiles.transpose(2, 3).flatten(3).flatten(1, 2)
