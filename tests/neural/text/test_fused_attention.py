"""MPNet with attention in one kernel computes what transformers computes step by step."""

import copy

import pytest
import torch
import transformers
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.fused_attention import FusedSelfAttention, with_fused_attention


@pytest.fixture
def mpnet():
    torch.manual_seed(0)
    config = transformers.MPNetConfig(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48, vocab_size=90,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.5,
    )  # fmt: skip
    return transformers.MPNetModel(config).double()  # some gradients are 0 up to rounding


def states_and_gradients(model, mask):
    model.zero_grad()
    tokens = torch.randint(2, 90, (4, 21), generator=torch.Generator().manual_seed(1))
    states = model(tokens, attention_mask=mask, output_hidden_states=True).hidden_states
    kept = torch.ones_like(tokens).bool() if mask is None else mask.bool()
    (states[-1][kept] @ torch.linspace(-1, 2, 32).double().sin()).square().sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return [state[kept].detach() for state in states], gradients


@pytest.mark.parametrize("padded", [False, True])
def test_states_and_gradients_are_those_of_transformers(mpnet, padded, monkeypatch):
    mask = torch.ones(4, 21, dtype=torch.long) if padded else None
    if mask is not None:
        mask[1, 9:] = 0
        mask[3, 2:] = 0
    fused = with_fused_attention(copy.deepcopy(mpnet))
    expected, expected_gradients = states_and_gradients(mpnet, mask)
    monkeypatch.setattr(MPNetSelfAttention, "forward", None)  # from here on only the fused kernel works
    found, gradients = states_and_gradients(fused, mask)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    frozen = {"encoder.relative_attention_bias.weight"}
    assert gradients.keys() == expected_gradients.keys() - frozen
    for name, gradient in gradients.items():
        scale = float(expected_gradients[name].abs().max()) + 1e-3
        torch.testing.assert_close(gradient / scale, expected_gradients[name] / scale, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("padded", [False, True])
def test_the_bias_is_contiguous_as_the_fused_kernel_of_a_gpu_needs_it(mpnet, padded, monkeypatch):
    biases = []

    def attention(q, k, v, attn_mask, dropout_p):
        biases.append(attn_mask)
        return v

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
    mask = torch.ones(4, 21, dtype=torch.long)
    mask[1, 9:] = 0
    with_fused_attention(mpnet)(torch.full((4, 21), 5), attention_mask=mask if padded else None)
    assert [bias.stride()[1:] for bias in biases] == [(21 * 21, 21, 1)] * 3


def test_the_weights_keep_their_names_and_other_encoders_are_left_alone(mpnet):
    names = list(mpnet.state_dict())
    assert list(with_fused_attention(mpnet).state_dict()) == names
    assert isinstance(mpnet.encoder.layer[0].attention.attn, FusedSelfAttention)
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    bert = transformers.BertModel(transformers.BertConfig(vocab_size=9, **small))
    kinds = [type(m) for m in bert.modules()]
    assert [type(m) for m in with_fused_attention(bert).modules()] == kinds


def test_attention_weights_are_still_available(mpnet):
    tokens = torch.arange(2, 12)[None]
    mpnet.eval()
    expected = mpnet(tokens, output_attentions=True).attentions
    found = with_fused_attention(mpnet)(tokens, output_attentions=True).attentions
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch.compile looks at gradients itself
def test_compiled_layers_share_one_program_and_compute_the_same_for_every_length(mpnet):
    programs = []

    def count(graph, inputs):
        programs.append(graph)
        return graph.forward

    encoder = TextEncoder(mpnet, pooling="mean", layers=2)
    batches = []
    for length in (8, 16, 24):
        mask = torch.ones(3, length, dtype=torch.float64)
        mask[1, length // 2 :] = 0
        batches.append((torch.randint(2, 90, (3, length)), mask))
    expected = [encoder(*batch) for batch in batches]
    with encoder.compiled(backend=count):
        for batch, wanted in zip(batches, expected, strict=True):
            torch.testing.assert_close(encoder(*batch), wanted)
    assert len(programs) == 1  # of three layers and three lengths
    assert not any("forward" in vars(layer) for layer in mpnet.encoder.layer)
