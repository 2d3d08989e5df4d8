"""Calibrate raw cosine to a score that means the same for every embedder.

Cosines of two models cannot be compared: with all-MiniLM-L6-v2 a right answer often lies at 0.3. A calibration is a
strictly rising line from (-1, 0) to (1, 1) through points fitted to labelled pairs of query and memory. It keeps the
order.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise

from perdure.domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Calibration:
    """A strictly increasing piecewise linear map [-1, 1] -> [0, 1]; ConfigError for points that do not rise."""

    cosines: tuple[float, ...]
    scores: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, values, ends in (("cosines", self.cosines, (-1.0, 1.0)), ("scores", self.scores, (0.0, 1.0))):
            if len(values) < 2 or (values[0], values[-1]) != ends:
                raise ConfigError(f"{name} must run from {ends[0]} to {ends[1]}", field=name, value=values)
            if not all(low < high for low, high in pairwise(values)):
                raise ConfigError(f"{name} must rise from point to point", field=name, value=values)
        if len(self.cosines) != len(self.scores):
            raise ConfigError("there must be one score for each cosine", field="scores", value=self.scores)

    def __call__(self, similarity: float) -> float:
        """Return the score of a cosine, clipped to [-1, 1]; NaN scores 0."""
        if math.isnan(similarity) or similarity <= -1.0:
            return 0.0
        if similarity >= 1.0:
            return 1.0
        right = bisect_right(self.cosines, similarity)
        left = right - 1
        share = (similarity - self.cosines[left]) / (self.cosines[right] - self.cosines[left])
        score = self.scores[left] + share * (self.scores[right] - self.scores[left])
        return min(score, self.scores[right])

    @classmethod
    def read(cls, package: str, file: str) -> Calibration:
        """Read a calibration from a package's JSON file with the lists `cosines` and `scores`."""
        data = json.loads(files(package).joinpath(file).read_text(encoding="utf-8"))
        return cls(tuple(map(float, data["cosines"])), tuple(map(float, data["scores"])))
