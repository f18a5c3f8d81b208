"""MPNet's attention in one kernel.

transformers computes it step by step and stores the result of each step, (points, heads, tokens, tokens) numbers, for
the backward pass.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder, MPNetSelfAttention

Tensor = torch.Tensor


class FusedSelfAttention(MPNetSelfAttention):
    """The same function; `FusedEncoder` passes position bias and mask as one tensor."""

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, position_bias: Tensor | None = None,
        output_attentions: bool = False, **kwargs: Any,
    ) -> Any:  # fmt: skip
        if output_attentions or attention_mask is not None or position_bias is None:
            step_by_step: Any = super().forward
            return step_by_step(hidden_states, attention_mask, position_bias, output_attentions, **kwargs)
        heads = (*hidden_states.shape[:-1], self.num_attention_heads, self.attention_head_size)
        q, k, v = (part(hidden_states).view(heads).transpose(1, 2) for part in (self.q, self.k, self.v))
        dropout = self.dropout.p if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=position_bias.to(q.dtype), dropout_p=dropout)
        return (self.o(attended.transpose(1, 2).reshape(hidden_states.shape)),)


class FusedEncoder(MPNetEncoder):
    """An encoder that adds position bias and mask once, not in every layer, and in the precision of the attention."""

    _mask: Tensor | None = None

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        self._mask = attention_mask
        try:
            return super().forward(hidden_states, None, *args, **kwargs)
        finally:
            self._mask = None

    def compute_position_bias(self, x: Tensor, position_ids: Tensor | None = None, num_buckets: int = 32) -> Tensor:
        # Computed on the device (transformers counts positions on the CPU, in every step) and for one point, because
        # all points have the same positions; `+ mask` or `expand` broadcasts it. Contiguous, because otherwise a GPU's
        # fused kernel refuses it, and torch falls back to computing step by step.
        positions = torch.arange(x.shape[1], device=x.device)
        bucket_of: Any = self.relative_position_bucket
        buckets = bucket_of(positions[None, :] - positions[:, None], num_buckets=num_buckets)
        bias: Tensor = self.relative_attention_bias(buckets).permute(2, 0, 1).contiguous()[None]
        bias = bias.expand(x.shape[0], -1, -1, -1) if self._mask is None else bias + self._mask
        kind = x.device.type
        return bias.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else bias


def with_fused_attention(model: nn.Module) -> nn.Module:
    """Replace the attention of an MPNet in place, freeze its position bias, and return the model.

    Other models are not changed, nor is an MPNet whose code differs from what this file expects.
    """
    encoder = getattr(model, "encoder", None)
    known = list(inspect.signature(MPNetSelfAttention.forward).parameters)[1:5]
    if type(encoder) is not MPNetEncoder or known != [
        "hidden_states", "attention_mask", "position_bias", "output_attentions",
    ]:  # fmt: skip
        return model
    encoder.__class__ = FusedEncoder
    # Its gradient would take (points, heads, tokens, tokens) numbers per layer, for a few hundred weights.
    encoder.relative_attention_bias.requires_grad_(False)
    for module in encoder.modules():
        if type(module) is MPNetSelfAttention:
            module.__class__ = FusedSelfAttention
    return model
