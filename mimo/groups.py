"""Process groups for borders, named after their ranks and shared by all who need the same ranks."""

from __future__ import annotations

from collections.abc import Iterable

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


def make(rank_sets: Iterable[Iterable[int]]) -> None:
    """Makes the groups of these rank sets that do not exist yet.

    A collective call: every rank of the job must make the same sets, also those it is not in. Sets
    come in one sorted order, so the order of the argument does not matter.
    """
    for ranks in sorted({tuple(sorted(ranks)) for ranks in rank_sets}):
        name = name_of(ranks)
        if name in _groups:
            continue
        group = dist.new_group(list(ranks), group_desc=name)
        _groups[name] = group
        if dist.get_rank() in ranks:
            _register_process_group(name, group)


def destroy() -> None:
    """Takes down all groups made here. Calling it again does nothing."""
    while _groups:
        name, group = _groups.popitem()
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            _unregister_process_group(name)
            dist.destroy_process_group(group)
