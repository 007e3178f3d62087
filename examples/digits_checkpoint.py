"""Checkpoints of the model, the optimizer and the step, readable under any layout."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.optim import Optimizer


def _is_first_rank() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


def save(folder: Path, model: nn.Module, optimizer: Optimizer, step: int) -> None:
    """Saves after `step` steps; the checkpoint before is removed once this one is whole.

    A collective call. `folder` must be the same folder on every rank.
    """
    model_state, optimizer_state = get_state_dict(model, optimizer)
    name = f"step-{step}"
    # One saved by a longer run before would be mixed with this one.
    if _is_first_rank():
        shutil.rmtree(folder / name, ignore_errors=True)
    state = {"model": model_state, "optimizer": optimizer_state, "step": step}
    dcp.save(state, checkpoint_id=folder / name)
    if _is_first_rank():
        (folder / "latest.part").write_text(name)
        (folder / "latest.part").replace(folder / "latest")
        for other in folder.glob("step-*"):
            if other.name != name:
                shutil.rmtree(other)


def load(folder: Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Loads the latest checkpoint into the model and the optimizer, whatever layout saved it.

    Returns:
        The number of steps done.

    Raises:
        FileNotFoundError: there is no whole checkpoint in `folder`.
    """
    latest = folder / "latest"
    if not latest.exists():
        raise FileNotFoundError(f"--resume: there is no checkpoint in {folder}")
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state: dict[str, Any] = {"model": model_state, "optimizer": optimizer_state, "step": 0}
    dcp.load(state, checkpoint_id=folder / latest.read_text())
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
    return state["step"]
