"""Trains a small vision-language model to read handwritten digits.

The encoder and the language model share the same ranks in different layouts:

    ./bazelw run //examples:train_digits
    ./bazelw run //examples:train_digits -- --vision dp=2,tp=2 --language dp=4
    ./bazelw run //examples:train_digits -- --single

Started plainly it starts its own ranks with torchrun, over Gloo on the CPU. `--single` is the same
training as one plain PyTorch process.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import math
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import digits_checkpoint
import digits_data
import torch
import torch.distributed as dist
from digits_model import Config, DigitsModel
from digits_parallel import distribute, placement
from digits_report import Report, StepMetrics

import mimo

BATCH_SIZE = 32
LEARNING_RATE = 1.5e-3
WARM_UP_STEPS = 50
SAVED_STEPS = 100
MOST_WAIT = datetime.timedelta(minutes=10)


@dataclass(frozen=True)
class Job:
    """Where this process stands in the job.

    Attributes:
        vision: where the encoder lives; None in one plain process.
        language: where everything else lives; None in one plain process.
    """

    vision: mimo.Placement | None = None
    language: mimo.Placement | None = None

    @property
    def parts(self) -> int:
        """How many parts the batch is cut into."""
        return self.language.size("dp") if self.language else 1

    @property
    def part(self) -> int:
        """The part of this process."""
        return self.language.coordinate("dp") if self.language else 0

    @property
    def title(self) -> str:
        """The layouts as a person reads them."""
        return f"{self.vision} and {self.language}" if self.language else "one process"

    def total(self, value: torch.Tensor) -> float:
        """The sum of one value a part; every rank of a part has the same."""
        if not self.language:
            return value.item()
        total = value.detach().double()
        dist.all_reduce(total)
        return total.item() * self.parts / self.language.num_ranks


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vision", default="dp=4", help="the encoder's axes (dp=4)")
    parser.add_argument(
        "--language", default="dp=2,tp=2", help="the language model's axes (dp=2,tp=2)"
    )
    parser.add_argument("--single", action="store_true", help="one plain PyTorch process")
    parser.add_argument("--steps", type=int, default=600, help="steps in all (600)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/digits"), help="folder for results (runs/digits)"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint there")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data (0)")
    parser.add_argument(
        "--dtype", default="float32", choices=("float32", "float64", "bfloat16"), help="(float32)"
    )
    options = parser.parse_args()
    if options.steps < 1 or options.seed < 0:
        parser.error("--steps is at least 1 and --seed at least 0")
    # Bazel runs programs in a folder of its own and says where the user stood.
    options.out = Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")).resolve() / options.out
    try:
        options.job = (
            Job()
            if options.single
            else Job(placement("vision", options.vision), placement("language", options.language))
        )
    except ValueError as error:
        parser.error(str(error))
    if not options.single and options.job.vision.ranks != options.job.language.ranks:
        parser.error(
            f"{options.job.vision} has {options.job.vision.num_ranks} ranks, "
            f"{options.job.language} {options.job.language.num_ranks}: both need the same"
        )
    if BATCH_SIZE % options.job.parts:
        parser.error(f"--language dp={options.job.parts} does not divide {BATCH_SIZE} samples")
    return options


def _learning_rate(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to a hundredth."""
    if step < WARM_UP_STEPS:
        return LEARNING_RATE * (step + 1) / WARM_UP_STEPS
    done = (step - WARM_UP_STEPS) / max(1, steps - WARM_UP_STEPS)
    return LEARNING_RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))


def _part(job: Job, batch: digits_data.Batch) -> digits_data.Batch:
    """This process's samples of a global batch."""
    rows = BATCH_SIZE // job.parts
    return batch.rows(job.part * rows, (job.part + 1) * rows)


def _train_step(
    model: DigitsModel, optimizer: torch.optim.Optimizer, options: argparse.Namespace, step: int
) -> StepMetrics:
    """One step of the whole job; the metrics are the same on every rank but for its borders."""
    job: Job = options.job
    start, before = time.perf_counter(), mimo.traffic()
    batch = _part(job, digits_data.training_batch(step, BATCH_SIZE, options.seed))
    for group in optimizer.param_groups:
        group["lr"] = _learning_rate(step, options.steps)
    logits = model(batch.tokens, batch.images.to(getattr(torch, options.dtype)))
    loss = mimo.token_loss(logits, batch.labels, job.language)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    after = mimo.traffic()
    return StepMetrics(
        step=step + 1,
        loss=job.total(loss),
        tokens=int(mimo.count_tokens(batch.labels, job.language)),
        images=BATCH_SIZE * digits_data.IMAGES_PER_SAMPLE,
        seconds=time.perf_counter() - start,
        border_seconds=after.seconds - before.seconds,
        border_bytes=after.bytes - before.bytes,
    )


@torch.no_grad()
def _read_held_out(model: DigitsModel, job: Job, dtype: torch.dtype) -> tuple[int, int]:
    """Greedy decoding of the held-out digits: how many are read right, and of how many."""
    correct = asked = torch.zeros((), dtype=torch.int64)
    first = digits_data.PROMPT_LENGTH
    for whole in digits_data.held_out_batches(BATCH_SIZE):
        batch = _part(job, whole)
        tokens = batch.tokens.clone()
        tokens[:, first:] = digits_data.PAD
        answers = batch.labels[:, first - 1 : -1]
        for position in range(first, digits_data.SEQUENCE_LENGTH):
            logits = model(tokens, batch.images.to(dtype))
            tokens[:, position] = logits[:, position - 1].argmax(-1)
        valid = answers != digits_data.IGNORED
        correct = correct + ((tokens[:, first:] == answers) & valid).sum()
        asked = asked + valid.sum()
    return round(job.total(correct)), round(job.total(asked))


def _train(options: argparse.Namespace) -> None:
    job: Job = options.job
    dtype = getattr(torch, options.dtype)
    torch.manual_seed(options.seed)
    model = DigitsModel(Config()).to(dtype)
    if job.vision and job.language:
        distribute(model, job.vision, job.language)
    # Parameters on different meshes can't share one multi-tensor update.
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False, weight_decay=0.01)
    checkpoints = options.out / "checkpoints"
    first = digits_checkpoint.load(checkpoints, model, optimizer) if options.resume else 0
    shows = not job.language or dist.get_rank() == 0
    report = Report(options.out, first, options.steps) if shows else None
    with report or contextlib.nullcontext():
        for step in range(first, options.steps):
            metrics = _train_step(model, optimizer, options, step)
            if report:
                report.add(metrics)
            if (step + 1) % SAVED_STEPS == 0 or step + 1 == options.steps:
                digits_checkpoint.save(checkpoints, model, optimizer, step + 1)
    correct, asked = _read_held_out(model, job, dtype)
    if report:
        if job.language:
            print(mimo.explain(model), end="")
        report.finish(job.title, correct, asked)


def main() -> None:
    """Starts the ranks, or runs one of them."""
    options = _options()
    if options.single:
        _train(options)
    elif "RANK" not in os.environ:
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        launch += [str(options.job.language.num_ranks), __file__, *sys.argv[1:]]
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.execv(sys.executable, [sys.executable, *launch])
    else:
        dist.init_process_group("gloo", timeout=MOST_WAIT)
        _train(options)
        dist.barrier()
        mimo.destroy()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
