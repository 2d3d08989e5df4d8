"""Packs what `train.py` wrote: matrices in whole numbers of 8 bits, a scale for each row; the rest in float32.

python pack.py HEADS.npz OUT.npz

"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

STEPS = 127


def main(source: Path, out: Path) -> None:
    packed: dict[str, np.ndarray] = {}
    with np.load(source) as stored:
        for name in stored.files:
            value = stored[name].astype(np.float32)
            if value.ndim == 2 and value.shape[0] > 8:
                scale = np.maximum(np.abs(value).max(axis=1), 1e-12) / STEPS
                packed[name] = np.rint(value / scale[:, None]).astype(np.int8)
                packed[f"{name}.scale"] = scale.astype(np.float32)
            else:
                packed[name] = value
    np.savez_compressed(out, **packed)
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
