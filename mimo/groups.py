"""Process groups for borders, named after their ranks and shared by all who need the same ranks."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _register_process_group, _unregister_process_group

_groups: dict[str, dist.ProcessGroup] = {}


def name_of(ranks: Iterable[int]) -> str:
    """The name under which the group of these ranks is registered, e.g. `mimo:0,2`."""
    return torch.ops.mimo.group_name(list(ranks))


def get(ranks: Iterable[int]) -> dist.ProcessGroup:
    """The group of these ranks, made before."""
    return _groups[name_of(ranks)]


def make(rank_sets: Iterable[Iterable[int]], timeout: datetime.timedelta) -> None:
    """Makes the groups of these rank sets that do not exist yet.

    A collective call: every rank of the job must make the same sets, also those it is not in. Sets
    come in one sorted order, so the order of the argument does not matter.

    Args:
        rank_sets: the ranks of each group.
        timeout: how long a member waits for the others; groups made before keep theirs.
    """
    for ranks in sorted({tuple(sorted(ranks)) for ranks in rank_sets}):
        name = name_of(ranks)
        if name in _groups:
            continue
        group = dist.new_group(list(ranks), timeout=timeout, group_desc=name)
        _groups[name] = group
        if dist.get_rank() in ranks:
            _register_process_group(name, group)


def gather_objects(value: Any, group: dist.ProcessGroup | None = None) -> list[Any]:  # noqa: ANN401
    """Every member's value, in the group's order; all ranks of the job by default.

    A collective call. A dry run (torch's "fake" backend) has no peers: they count as like this one.
    """
    size = dist.get_world_size(group)
    if dist.get_backend(group) == "fake":
        return [value] * size
    values: list[Any] = [None] * size
    dist.all_gather_object(values, value, group=group)
    return values


def destroy() -> None:
    """Takes down all groups made here. Calling it again does nothing."""
    while _groups:
        name, group = _groups.popitem()
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            _unregister_process_group(name)
            dist.destroy_process_group(group)
