"""Trains the learned heads: the encoder's upper layers, fitted to judge two texts read together.

    python train.py ROWS.tsv --model FOLDER --out HEADS.npz [--check NAME=ROWS.tsv...] [--layers 3] [--epochs 3]

ROWS.tsv is what `rows.py` writes, FOLDER holds the encoder's `model.safetensors` and `tokenizer.json`. The embeddings
and the lower layers stay as they are, so that the encoder's own are used; only the upper `--layers` and a linear output
for each task are trained. Both texts are read as one, `[CLS] first [SEP] second [SEP]`, and an output sees the means
over the tokens of each. A tenth of the groups is kept apart and tells how the training goes; `--check` files are only
measured. Needs PyTorch and safetensors beside perdure; some 50 minutes on one core of a processor.

With `--start JUDGE.npz` a packed judge is trained further, by default for one epoch: of its rows as many are drawn as
`AGAIN` says.

The packaged judge (`src/perdure/backends/embedders/judge.npz`) was made of two trainings (docs/adr/0053), both with
`--all` and seed 0: the first from the encoder on the rows of

    D=benchmarks/data; python rows.py ROWS.tsv --talk $D/talk/train.jsonl $D/talk/train2.jsonl
        --items $D/curation/reconcile_dev.jsonl $D/curation/reconcile_dev2.jsonl
        --pairs $D/relations/pairs.tsv $D/relations/pairs2.tsv
                benchmarks/reconciliation/pairs.txt benchmarks/reconciliation/pairs_more.txt
        --worth $D/talk/train.jsonl $D/talk/train2.jsonl
                $D/curation/extraction_dev*.jsonl $D/curation/extraction_{nofact,plain,traps}.jsonl

for which `rows.py` told by keywords alone what says what (`_told`); the second from that judge with `--rate 1.5e-4`, on
the rows of the same call with `$D/talk/train4.jsonl` after train2.jsonl in `--talk`, labelled by likeness too. Packed
was the mean of both, `pack.py judge.npz SECOND.npz --beside FIRST_JUDGE.npz`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from perdure.backends.embedders._minilm_judge import trained_weights

LABELS = {"relation": "RSFBX", "sentence": "01", "fact": "01"}
HIDDEN, HEADS, EPSILON = 384, 12, 1e-12
LAYERS = 6
LONGEST = 128  # tokens of a pair
BATCH, RATE, DECAY, WARMUP, DROPOUT = 64, 3e-4, 0.01, 0.06, 0.2
"""Of some fifteen settings by the AUC on unread dialogues, which differ by .02; more epochs learn their lines."""
SMOOTHING = 0.05
SORTED = 40  # batches among whose rows those of like lengths are put together
RENAMED = 0.25
"""Share of the pairs in which "User" gets a name, another each time: where several people speak."""
NAMES = (
    "Mara", "Jonas", "Priya", "Kwame", "Ilse", "Tomasz", "Aiko", "Bruno", "Leila", "Pavel", "Nkechi", "Oskar", "Ximena",
    "Farid", "Greta", "Lucía", "Wen", "Sanna",
)  # fmt: skip
CLS, SEP = 101, 102
AGAIN = {"R": 0.85, "B": 0.3, "X": 0.5, "pair": 2.0, "worth": 0.35}
"""Share drawn of the rows when a judge is trained further: by label of those from dialogues, which are many; of
labelled pairs and items; of sentences and facts, by which it must not forget what it knows."""


@dataclass(frozen=True)
class Row:
    task: str
    label: int
    first: str
    second: str
    weight: float
    group: str


def read_rows(path: Path) -> list[Row]:
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        task, label, first, second, weight, group = line.split("\t")
        rows.append(Row(task, LABELS[task].index(label), first, second, float(weight), group))
    return rows


def again(rows: list[Row]) -> list[Row]:
    """The rows by their share in a further training; one that counts more than 1 comes as often as that."""
    drawn = []
    for row in rows:
        is_talk = "." not in row.group.partition(" ")[0]
        kind = LABELS[row.task][row.label] if is_talk else "pair"
        left = min(1.0, row.weight) * AGAIN[kind if row.task == "relation" else "worth"]
        while left > 0:
            drawn.append(replace(row, weight=min(1.0, left)))
            left -= 1
    return drawn


class Layer(nn.Module):
    """One layer of BERT, by its published names."""

    def __init__(self, drop: float) -> None:
        super().__init__()
        self.query, self.key, self.value, self.mixed = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.inner, self.outer = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)
        self.norm_mixed, self.norm_outer = nn.LayerNorm(HIDDEN, EPSILON), nn.LayerNorm(HIDDEN, EPSILON)
        self.drop = drop

    PARTS: ClassVar[dict[str, str]] = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "mixed": "attention.output.dense",
        "norm_mixed": "attention.output.LayerNorm",
        "inner": "intermediate.dense",
        "outer": "output.dense",
        "norm_outer": "output.LayerNorm",
    }

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        n, s, _ = x.shape
        q, k, v = (part(x).view(n, s, HEADS, -1).transpose(1, 2) for part in (self.query, self.key, self.value))
        drop = self.drop if self.training else 0.0
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :], dropout_p=drop)
        x = self.norm_mixed(x + F.dropout(self.mixed(seen.transpose(1, 2).reshape(n, s, -1)), drop, self.training))
        return self.norm_outer(x + F.dropout(self.outer(F.gelu(self.inner(x))), drop, self.training))


class Heads(nn.Module):
    def __init__(self, weights: dict[str, Tensor], trained: int, drop: float = DROPOUT) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(weights["embeddings.word_embeddings.weight"], freeze=True)
        places = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self.places = nn.Embedding.from_pretrained(places, freeze=True)
        self.norm = nn.LayerNorm(HIDDEN, EPSILON)
        self.norm.load_state_dict({k: weights[f"embeddings.LayerNorm.{k}"] for k in ("weight", "bias")})
        self.layers = nn.ModuleList(Layer(drop) for _ in range(LAYERS))
        for number, layer in enumerate(self.layers):
            for part, name in Layer.PARTS.items():
                stored = {k: weights[f"encoder.layer.{number}.{name}.{k}"] for k in ("weight", "bias")}
                getattr(layer, part).load_state_dict(stored)
        self.frozen, self.drop = LAYERS - trained, drop
        for part in (self.norm, *self.layers[: self.frozen]):
            part.requires_grad_(False)
        self.outputs = nn.ModuleDict({task: nn.Linear(2 * HIDDEN, len(labels)) for task, labels in LABELS.items()})

    def forward(self, ids: Tensor, second: Tensor, mask: Tensor) -> dict[str, Tensor]:
        x = self.norm(self.words(ids) + self.places.weight[: ids.shape[1]])
        for number, layer in enumerate(self.layers):
            if number < self.frozen:
                layer.eval()
                with torch.no_grad():
                    x = layer(x, mask)
            else:
                x = layer(x, mask)
        means = [
            (x * part[:, :, None]).sum(1) / part.sum(1, keepdim=True).clamp(min=1)
            for part in ((mask & ~second).float(), (mask & second).float())
        ]
        pooled = F.dropout(torch.cat(means, 1), self.drop, self.training)
        return {task: output(pooled) for task, output in self.outputs.items()}


def encode(tokenizer: Tokenizer, first: str, second: str) -> tuple[list[int], int]:
    """Token ids of a pair, and where the second text begins."""
    one = tokenizer.encode(first, add_special_tokens=False).ids[: LONGEST // 2 - 2]
    two = tokenizer.encode(second, add_special_tokens=False).ids[: LONGEST - len(one) - 3]
    return [CLS, *one, SEP, *two, SEP], len(one) + 2


def batch_of(pairs: list[tuple[list[int], int]], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    width = max(len(ids) for ids, _ in pairs)
    ids = np.zeros((len(pairs), width), np.int64)
    second, mask = np.zeros((len(pairs), width), bool), np.zeros((len(pairs), width), bool)
    for n, (tokens, start) in enumerate(pairs):
        ids[n, : len(tokens)] = tokens
        mask[n, : len(tokens)] = True
        second[n, start : len(tokens)] = True
    return tuple(torch.from_numpy(each).to(device) for each in (ids, second, mask))  # type: ignore[return-value]


_USER = re.compile(r"\bUser\b")


def varied(row: Row, draw: random.Random) -> tuple[str, str]:
    first, second = row.first, row.second
    if draw.random() < RENAMED and row.task == "relation" and _USER.search(first) and _USER.search(second):
        name = draw.choice(NAMES)
        first, second = _USER.sub(name, first), _USER.sub(name, second)
    return first, second


@torch.no_grad()
def odds(model: Heads, tokenizer: Tokenizer, rows: list[Row], device: torch.device) -> list[np.ndarray]:
    model.eval()
    found: list[np.ndarray] = [np.zeros(0)] * len(rows)
    pairs = [encode(tokenizer, row.first, row.second) for row in rows]
    order = sorted(range(len(rows)), key=lambda n: len(pairs[n][0]))
    for start in range(0, len(order), 512):
        part = order[start : start + 512]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            scores = model(*batch_of([pairs[n] for n in part], device))
        for task in LABELS:
            each = torch.softmax(scores[task].float(), 1).cpu().numpy()
            for place, n in enumerate(part):
                if rows[n].task == task:
                    found[n] = each[place]
    return found


def auc(score: np.ndarray, label: np.ndarray) -> float:
    order = np.argsort(score, kind="stable")
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    good = label.sum()
    return float((ranks[label].sum() - good * (good + 1) / 2) / max(1, good * (len(label) - good)))


def report(name: str, rows: list[Row], found: list[np.ndarray]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for task in LABELS:
        at = [n for n, row in enumerate(rows) if row.task == task]
        if not at:
            continue
        p, y = np.array([found[n] for n in at]), np.array([rows[n].label for n in at])
        if task == "relation":
            change = p[:, 0]
            line = [f"replaces AUC {auc(change, y == 0):.3f}"]
            for threshold in (0.5, 0.7, 0.9):
                hit = change >= threshold
                right = (y == 0)[hit].mean() if hit.any() else math.nan
                line.append(f"at {threshold} precision {right:.3f} recall {hit[y == 0].mean():.3f}")
            line.append(f"same AUC {auc(p[:, 1], y == 1):.3f}")
            figures[task] = auc(change, y == 0)
        else:
            figures[task] = auc(p[:, 1], y == 1)
            line = [f"AUC {figures[task]:.3f}"]
        print(f"{name:10} {task:9} {len(at):6}  {'; '.join(line)}", flush=True)
    return figures


def drawn(rows: list[Row], tokenizer: Tokenizer, draw: random.Random) -> list[list[tuple[Row, tuple[list[int], int]]]]:
    """Batches of one epoch: a row that counts less than 1 is drawn as often as that; of like lengths, for speed."""
    pairs = [(row, encode(tokenizer, *varied(row, draw))) for row in rows if draw.random() < row.weight]
    draw.shuffle(pairs)
    batches = []
    for start in range(0, len(pairs), BATCH * SORTED):
        some = sorted(pairs[start : start + BATCH * SORTED], key=lambda each: len(each[1][0]))
        batches += [some[place : place + BATCH] for place in range(0, len(some), BATCH)]
    draw.shuffle(batches)
    return batches


def train(given: argparse.Namespace, rows: list[Row], seed: int, device: torch.device) -> Heads:
    torch.manual_seed(seed)
    draw = random.Random(seed)
    weights = {
        name.removeprefix("bert."): value.float()
        for name, value in load_file(given.model / "model.safetensors").items()
    }
    tokenizer = Tokenizer.from_file(str(given.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    known = (
        {name: torch.from_numpy(value) for name, value in trained_weights(given.start).items()} if given.start else {}
    )
    model = Heads({**weights, **known}, given.layers, given.dropout)
    if known:
        rows = again(rows)
        for task, output in model.outputs.items():
            output.load_state_dict({kind: known[f"{task}.{kind}"] for kind in ("weight", "bias")})
    model = model.to(device)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=given.rate, weight_decay=DECAY)
    steps = int(given.epochs * (sum(min(1.0, row.weight) for row in rows) // BATCH + 1))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (WARMUP * steps), max(0.0, (steps - step) / ((1 - WARMUP) * steps)))
    )
    for epoch in range(given.epochs):
        model.train()
        begun, total = time.monotonic(), 0.0
        batches = drawn(rows, tokenizer, draw)
        for batch in batches:
            part, pairs = [row for row, _ in batch], [pair for _, pair in batch]
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                scores = model(*batch_of(pairs, device))
            loss = torch.zeros((), device=device)
            for task in LABELS:
                at = [n for n, row in enumerate(part) if row.task == task]
                if at:
                    label = torch.tensor([part[n].label for n in at], device=device)
                    weight = torch.tensor([max(1.0, part[n].weight) for n in at], device=device)
                    each = F.cross_entropy(scores[task][at].float(), label, reduction="none", label_smoothing=SMOOTHING)
                    loss = loss + (each * weight).sum() / BATCH
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        print(
            f"seed {seed} epoch {epoch}: loss {total / len(batches):.4f}, {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    return model


def is_apart(row: Row) -> bool:
    return hashlib.sha256(row.group.encode()).digest()[0] < 26


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--check", nargs="*", default=[])
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--start", type=Path, help="a packed judge to train further")
    parser.add_argument("--epochs", type=int, help="3, or 1 with --start")
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--dropout", type=float, default=DROPOUT)
    parser.add_argument("--tasks", nargs="+", choices=sorted(LABELS), default=list(LABELS))
    parser.add_argument("--all", action="store_true", help="train on the tenth too, once the settings are chosen")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.epochs = given.epochs or (1 if given.start else 3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = [row for row in read_rows(given.rows) if row.task in given.tasks]
    apart = [row for row in rows if is_apart(row)]
    fitted = rows if given.all else [row for row in rows if not is_apart(row)]
    model = train(given, fitted, given.seed, device)
    tokenizer = Tokenizer.from_file(str(given.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    checks = {"apart": apart} | {
        name: read_rows(Path(path)) for name, path in (each.split("=") for each in given.check)
    }
    figures = {}
    for name, every in checks.items():
        some = [row for row in every if row.task in given.tasks]
        figures[name] = report(name, some, odds(model, tokenizer, some, device))
    stored = {}
    for number in range(model.frozen, LAYERS):
        for part, name in Layer.PARTS.items():
            for kind, value in getattr(model.layers[number], part).state_dict().items():
                stored[f"encoder.layer.{number}.{name}.{kind}"] = value.half().cpu().numpy()
    for task in given.tasks:
        for kind, value in model.outputs[task].state_dict().items():
            stored[f"{task}.{kind}"] = value.cpu().numpy()
    np.savez(given.out, **stored)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
