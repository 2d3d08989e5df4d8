"""Tests of benchmarks/, which is no package: its files import each other by their bare names."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    """A file of benchmarks/ under its bare name; what it imports from beside it must have been loaded before."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # before it runs, since dataclasses look their own module up
        spec.loader.exec_module(module)
    return sys.modules[name]


answers_data = load("answers_data")
answers = load("answers")
recall_data = load("recall_data")
recall_metrics = load("recall_metrics")
recall_peers = load("recall_peers")
recall_run = load("recall_run")
