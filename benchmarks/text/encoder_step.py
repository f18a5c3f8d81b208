"""One training step of an encoder below a layer of labels: milliseconds, tokens/s, share of the GPU's bf16 peak.

    python -m benchmarks.text.encoder_step --config FOLDER ... [--lengths 512 ...] [--batches 64 128]

FOLDER holds the config.json of a Hugging Face encoder; its weights are random, which takes the same time. Every encoder
is timed as it is and with compiled layers, on a GPU that should have nothing else to do. Needs no Numba. Writes
docs/lab/benchmarks/encoder-step.json.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.common import add_out, markdown_table, save
from benchmarks.text.texts import BF16_PEAK
from longtail.neural.text.encoder import TextEncoder

N_LABELS = 4193  # of EURLEX57K
COLUMNS = ("encoder", "tokens", "batch", "compiled", "first steps s", "step ms", "tokens/s", "bf16 peak %", "GB")


def timed(folder: Path, length: int, batch: int, compiled: bool, steps: int) -> dict[str, Any]:
    torch.manual_seed(0)
    torch.cuda.reset_peak_memory_stats()
    config = transformers.AutoConfig.from_pretrained(folder)
    encoder = TextEncoder(transformers.AutoModel.from_config(config), pooling="mean", layers=5).cuda().train()
    head = torch.nn.Linear(encoder.width, N_LABELS).cuda()
    weights = [p for p in [*encoder.parameters(), *head.parameters()] if p.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=1e-5, fused=True)
    tokens = torch.randint(5, config.vocab_size, (batch, length), device="cuda")

    def seconds(count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            with torch.autocast("cuda", torch.bfloat16):
                scores = head(encoder(tokens, None))
            torch.nn.functional.softplus(scores.float()).sum(1).mean().backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimiser.step()
            optimiser.zero_grad()
        torch.cuda.synchronize()
        return time.perf_counter() - started

    with encoder.compiled() if compiled else contextlib.nullcontext():
        first = seconds(3)
        step = min(seconds(steps) for _ in range(3)) / steps
    layers = sum(p.numel() for name, p in encoder.named_parameters() if "embeddings" not in name)
    attention = 12.0 * config.num_hidden_layers * config.hidden_size * length
    operations = batch * (length * (6.0 * layers + attention) + 6.0 * head.weight.numel())
    peak = next((p for start, p in BF16_PEAK.items() if torch.cuda.get_device_name().startswith(start)), float("nan"))
    values = (
        folder.name, length, batch, "yes" if compiled else "no", round(first, 1), round(1000 * step, 1),
        round(batch * length / step), round(100 * operations / step / peak, 1),
        round(torch.cuda.max_memory_allocated() / 2**30, 1),
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, nargs="+", required=True)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512], help="tokens per text, one for each encoder")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--steps", type=int, default=10)
    add_out(parser)
    arguments = parser.parse_args()
    lengths = arguments.lengths * (len(arguments.config) if len(arguments.lengths) == 1 else 1)
    rows = []
    for folder, length in zip(arguments.config, lengths, strict=True):
        for batch in arguments.batches:
            for compiled in (False, True):
                rows.append(timed(folder, length, batch, compiled, arguments.steps))
                print(rows[-1], flush=True)
    table = markdown_table(COLUMNS, [[str(value) for value in row.values()] for row in rows])
    given = f"--lengths {' '.join(map(str, arguments.lengths))} --batches {' '.join(map(str, arguments.batches))}"
    command = f"python -m benchmarks.text.encoder_step --config {' '.join(f.name for f in arguments.config)} {given}"
    machine = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, random weights, bf16"
    save("encoder-step", {"table": table, "rows": rows}, command, folder=arguments.out, machine_name=machine)


if __name__ == "__main__":
    main()
