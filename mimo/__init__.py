"""The border between modules that share ranks in different parallel layouts.

import mimo
vision, language = mimo.Placement("vision", dp=4, tp=2), mimo.Placement("language", dp=2, tp=4)
mimo.place(model, language)
mimo.place(model.visual, vision)
mimo.attach(model)
"""

from mimo import _library  # noqa: F401  loads the operators
from mimo.attach import attach, borders, detach, place
from mimo.explain import explain, explain_edge
from mimo.groups import destroy
from mimo.layout import B, I, P, S
from mimo.loss import count_tokens, sum_gradients, token_loss
from mimo.placement import Placement
from mimo.plan import Plan
from mimo.traffic import traffic

__all__ = [
    "B",
    "I",
    "P",
    "Placement",
    "Plan",
    "S",
    "attach",
    "borders",
    "count_tokens",
    "destroy",
    "detach",
    "explain",
    "explain_edge",
    "place",
    "sum_gradients",
    "token_loss",
    "traffic",
]
