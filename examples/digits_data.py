"""Samples of the digit-reading task, made from scikit-learn's 8x8 handwritten digits.

A sample shows four images and asks for the first n of them, 1 <= n <= 4; the answer is n digit
tokens and an end token, so samples differ in how many tokens count in the loss. A sequence is

    IMAGE * (4 * ROWS_PER_IMAGE) | READ_FIRST[n - 1] | the n digits | PAD

and each IMAGE position is a placeholder for one feature row, in image order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

IMAGES_PER_SAMPLE = 4
IMAGE_SIZE = 8
ROWS_PER_IMAGE = 1

# Tokens 0 to 9 are the digits themselves.
END = 10
PAD = 11
IMAGE = 12
READ_FIRST = (13, 14, 15, 16)
VOCABULARY_SIZE = 17

PROMPT_LENGTH = IMAGES_PER_SAMPLE * ROWS_PER_IMAGE + 1
SEQUENCE_LENGTH = PROMPT_LENGTH + IMAGES_PER_SAMPLE

IGNORED = -100
HELD_OUT_EVERY = 5

# Of the ink over all images, 0 to 1; the model does not learn which image to read without them.
INK_MEAN = 0.305
INK_DEVIATION = 0.376
NOISE_DEVIATION = 0.05


@dataclass(frozen=True)
class Batch:
    """Samples of one step.

    Attributes:
        images: [B, 4, 8, 8] float32, ink standardised to mean 0 and deviation 1.
        tokens: [B, S] int64.
        labels: [B, S] int64, already shifted: labels[b, s] is the token that follows
            tokens[b, s], or -100 where the position does not count in the loss.
    """

    images: Tensor
    tokens: Tensor
    labels: Tensor

    def rows(self, start: int, stop: int) -> Batch:
        """The samples [start, stop) of this batch."""
        return Batch(self.images[start:stop], self.tokens[start:stop], self.labels[start:stop])


@dataclass(frozen=True)
class _Digits:
    """Images [N, 8, 8] float32 from 0 to 1, and their digits [N] int64."""

    images: Tensor
    digits: Tensor


@functools.cache
def _digits(held_out: bool) -> _Digits:
    data = load_digits()
    chosen = (np.arange(len(data.target)) % HELD_OUT_EVERY == 0) == held_out
    images = torch.from_numpy(data.images[chosen] / 16).float()
    return _Digits(images, torch.from_numpy(data.target[chosen]).long())


def training_batch(step: int, batch_size: int, seed: int) -> Batch:
    """Makes the global batch of a step, from (seed, step) alone.

    Args:
        step: Number of the step, from 0.
        batch_size: Number of samples, B.
        seed: Seed of the run, not negative.

    Returns:
        B samples of augmented training images with 1 to 4 digits to read.
    """
    random = np.random.default_rng((seed, step))
    data = _digits(held_out=False)
    chosen = torch.from_numpy(random.integers(len(data.digits), size=batch_size * 4))
    counts = torch.from_numpy(random.integers(1, IMAGES_PER_SAMPLE + 1, size=batch_size))
    images = _augment(data.images[chosen], random)
    return _batch(images, data.digits[chosen], counts)


def held_out_batches(batch_size: int) -> Iterator[Batch]:
    """Yields batches that ask for every held-out digit once.

    All batches have the same size, so that data-parallel ranks can share each evenly; the last
    one is filled up with samples whose labels are all -100.

    Args:
        batch_size: Number of samples of a batch, B.
    """
    data = _digits(held_out=True)
    samples = len(data.digits) // IMAGES_PER_SAMPLE
    for start in range(0, samples, batch_size):
        sample = torch.arange(start, start + batch_size)
        chosen = (sample[:, None] * IMAGES_PER_SAMPLE + torch.arange(IMAGES_PER_SAMPLE)).flatten()
        chosen %= samples * IMAGES_PER_SAMPLE
        counts = torch.full((batch_size,), IMAGES_PER_SAMPLE)
        batch = _batch(data.images[chosen], data.digits[chosen], counts)
        batch.labels[sample >= samples] = IGNORED
        yield batch


def _augment(images: Tensor, random: np.random.Generator) -> Tensor:
    """Turns, scales and shifts each image [N, 8, 8] a little, and adds noise."""
    count = len(images)
    angle = random.normal(0, math.radians(8), count)
    scale = random.uniform(0.9, 1.1, (2, count))
    shift = random.uniform(-0.2, 0.2, (2, count))  # 0.25 is one pixel
    cosine, sine = np.cos(angle), np.sin(angle)
    matrix = np.stack(
        [
            np.stack([scale[0] * cosine, -scale[0] * sine, shift[0]], axis=-1),
            np.stack([scale[1] * sine, scale[1] * cosine, shift[1]], axis=-1),
        ],
        axis=1,
    )
    grid = torch.nn.functional.affine_grid(
        torch.from_numpy(matrix).float(), [count, 1, IMAGE_SIZE, IMAGE_SIZE], align_corners=False
    )
    moved = torch.nn.functional.grid_sample(images[:, None], grid, align_corners=False)[:, 0]
    return moved + NOISE_DEVIATION * torch.from_numpy(random.standard_normal(moved.shape)).float()


def _batch(images: Tensor, digits: Tensor, counts: Tensor) -> Batch:
    """Makes a batch of images [4B, 8, 8], their digits [4B] and how many to read [B]."""
    batch_size = len(counts)
    tokens = torch.full((batch_size, SEQUENCE_LENGTH), PAD)
    labels = torch.full((batch_size, SEQUENCE_LENGTH), IGNORED)
    question = PROMPT_LENGTH - 1
    tokens[:, :question] = IMAGE
    tokens[:, question] = torch.tensor(READ_FIRST)[counts - 1]

    answers = digits.view(batch_size, IMAGES_PER_SAMPLE)
    place = torch.arange(IMAGES_PER_SAMPLE)
    asked = place < counts[:, None]
    tokens[:, PROMPT_LENGTH:] = torch.where(asked, answers, PAD)
    labels[:, question:-1] = torch.where(asked, answers, IGNORED)
    labels[torch.arange(batch_size), question + counts] = END
    images = (images - INK_MEAN) / INK_DEVIATION
    return Batch(images.unflatten(0, (batch_size, IMAGES_PER_SAMPLE)), tokens, labels)
