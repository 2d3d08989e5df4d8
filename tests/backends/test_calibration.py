"""Scores: strictly rising, fitted to labelled pairs, and as the specifications' own sentences ask."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.backends.embedders.base import Embedder
from perdure.backends.registry import build
from perdure.backends.shared.calibration import Calibration
from perdure.domain.errors import ConfigError

pytestmark = pytest.mark.covers("U11")

FIT = Path(__file__).parents[2] / "benchmarks/calibration/fit.py"
MINILM = {
    precision: Calibration.read("perdure.backends.embedders", name)
    for precision, name in {"fp32": "_minilm_calibration.json", "int8": "_minilm_int8_calibration.json"}.items()
}
GAP = 1e-9
"""Cosines nearer than this may share a score: both are float64 then."""

cosines = st.floats(-1, 1)


@st.composite
def calibrations(draw: st.DrawFn) -> Calibration:
    inner = draw(st.lists(st.integers(1, 999), min_size=0, max_size=8, unique=True).map(sorted))
    steps = draw(st.lists(st.integers(1, 999), min_size=len(inner), max_size=len(inner), unique=True).map(sorted))
    return Calibration(
        (-1.0, *(value / 500 - 1 for value in inner), 1.0), (0.0, *(value / 1000 for value in steps), 1.0)
    )


@given(calibrations(), cosines, cosines)
def test_order_by_score_is_order_by_cosine(calibration: Calibration, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert calibration(low) <= calibration(high)
    assume(high - low >= GAP)
    assert calibration(low) < calibration(high)


@given(cosines, cosines, st.sampled_from(sorted(MINILM)))
def test_order_by_minilms_score_is_order_by_cosine(one: float, other: float, precision: str) -> None:
    score = MINILM[precision]
    low, high = sorted((one, other))
    assert score(low) <= score(high)
    assume(high - low >= GAP)
    assert score(low) < score(high)


@given(calibrations(), st.floats(allow_nan=True, allow_infinity=True))
def test_every_number_has_a_score_between_0_and_1(calibration: Calibration, similarity: float) -> None:
    assert 0.0 <= calibration(similarity) <= 1.0


def test_the_ends_are_fixed_and_the_points_are_met() -> None:
    calibration = Calibration((-1.0, 0.0, 0.5, 1.0), (0.0, 0.1, 0.7, 1.0))
    assert [calibration(x) for x in (-1.5, -1.0, 0.0, 0.25, 0.5, 1.0, 1.0000001)] == [0, 0, 0.1, 0.4, 0.7, 1, 1]
    assert calibration(float("nan")) == 0.0


@pytest.mark.parametrize(
    ("cosines", "scores"),
    [
        ((-1.0, 1.0), (0.0, 0.9)),
        ((-0.9, 1.0), (0.0, 1.0)),
        ((-1.0, 0.5, 0.5, 1.0), (0.0, 0.2, 0.3, 1.0)),
        ((-1.0, 0.0, 0.5, 1.0), (0.0, 0.5, 0.4, 1.0)),
        ((-1.0, 0.0, 1.0), (0.0, 1.0)),
        ((), ()),
    ],
)
def test_points_that_do_not_rise_are_refused(cosines: tuple[float, ...], scores: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError):
        Calibration(cosines, scores)


# ------------------------------------------------------------------------------------------- the fit itself
@pytest.fixture(scope="module")
def fit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("calibration_fit", FIT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_enough_pairs_in_many_styles_and_none_of_the_specifications(fit: ModuleType) -> None:
    pairs = fit.read_pairs(fit.PAIRS)
    assert len(pairs) >= 300
    assert len({(pair["query"], pair["memory"]) for pair in pairs}) == len(pairs)
    assert len({pair["style"] for pair in pairs}) >= 8
    assert 0.2 < np.mean([pair["relevant"] for pair in pairs]) < 0.8
    own = {(query, memory) for query, memory, _ in fit.SPECIFICATION}
    assert not own & {(pair["query"], pair["memory"]) for pair in pairs}


def test_the_fit_finds_a_map_that_made_the_labels(fit: ModuleType) -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(-0.2, 0.9, 10_000)
    truth = np.interp(x, [-1, 0, 0.15, 0.3, 0.45, 0.6, 1], [0, 0.05, 0.1, 0.6, 0.7, 0.9, 1])
    labels = (rng.random(len(x)) < truth).astype(float)
    found = fit.fit_ramps(x, labels, np.ones_like(x))
    inside = np.linspace(-0.1, 0.85, 50)
    expected = np.interp(inside, [-1, 0, 0.15, 0.3, 0.45, 0.6, 1], [0, 0.05, 0.1, 0.6, 0.7, 0.9, 1])
    assert np.abs(found(inside) - expected).max() < 0.04


def test_the_fit_rises_strictly_even_where_the_labels_fall(fit: ModuleType) -> None:
    x = np.linspace(-0.5, 0.9, 200)
    labels = (x < 0.3).astype(float)
    at_knots = fit.fit_ramps(x, labels, np.ones_like(x))(fit.KNOTS)
    assert (np.diff(at_knots) > 0).all()
    assert at_knots[0] == 0
    assert at_knots[-1] == pytest.approx(1)


def test_isotonic_steps_pool_what_violates_the_order(fit: ModuleType) -> None:
    steps = fit.fit_isotonic(np.array([1.0, 2, 3, 4]), np.array([0.0, 1, 0, 1]), np.ones(4))
    assert steps(np.array([0.0, 1, 2, 2.5, 3, 4, 9])).tolist() == [0, 0, 0.5, 0.5, 0.5, 1, 1]


# ------------------------------------------------------------------------------------------- with the model
@pytest.fixture(scope="module", params=["fp32", "int8"])
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def minilm(precision: str, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    config = {"cache_dir": str(tmp_path_factory.mktemp("minilm")), "precision": precision}
    embedder: Embedder = build("embedders", "minilm", config)
    reason = embedder.unavailable()
    if reason:
        pytest.skip(reason)
    return embedder


def similarities(embedder: Embedder, *pairs: tuple[str, str]) -> list[float]:
    left = asyncio.run(embedder.embed_batch([query for query, _ in pairs]))
    right = asyncio.run(embedder.embed_batch([memory for _, memory in pairs]))
    return [float(value) for value in (left * right).sum(axis=1)]


@pytest.mark.covers("T4", "U11", "V1", "V45")
def test_the_specifications_own_sentences(minilm: Embedder, precision: str) -> None:
    t4, v1, v45 = similarities(
        minilm,
        ("programming languages", "User likes Python"),
        ("What's my budget for the trip?", "User's budget for Hawaii is $10,000"),
        ("User's budget is now $15,000", "User's budget for Hawaii is $10,000"),
    )
    expected = {"fp32": (0.324, 0.513, 0.562), "int8": (0.339, 0.521, 0.561)}
    assert (t4, v1, v45) == pytest.approx(expected[precision], abs=0.001)
    assert minilm.score(t4) > 0.5
    assert minilm.score(v1) >= 0.6
    assert minilm.score(v45) > minilm.score(v1)


@pytest.mark.covers("U11")
def test_the_same_text_scores_1_and_an_unrelated_one_little(minilm: Embedder) -> None:
    same, unrelated = similarities(
        minilm, ("User likes Python", "User likes Python"), ("User likes Python", "The ferry leaves at noon")
    )
    assert minilm.score(same) == pytest.approx(1.0, abs=1e-5)
    assert unrelated < 0.1
    assert minilm.score(unrelated) < 0.2
    assert minilm.score(0.1) < 0.2


def test_the_data_file_is_what_the_pairs_give(minilm: Embedder, fit: ModuleType, precision: str) -> None:
    pairs = fit.read_pairs(fit.PAIRS)
    x = np.array(similarities(minilm, *((pair["query"], pair["memory"]) for pair in pairs)))
    labels = np.array([float(pair["relevant"]) for pair in pairs])
    written = json.loads(fit.DATA_FILES[precision].read_text(encoding="utf-8"))
    assert written["pairs"] == len(pairs)
    assert fit.fit_ramps(x, labels, fit.balance(labels))(fit.KNOTS) == pytest.approx(written["scores"], abs=0.002)


def test_the_map_fits_left_out_queries_better_than_a_logistic_curve(minilm: Embedder, fit: ModuleType) -> None:
    pairs = fit.read_pairs(fit.PAIRS)
    x = np.array(similarities(minilm, *((pair["query"], pair["memory"]) for pair in pairs)))
    labels = np.array([float(pair["relevant"]) for pair in pairs])
    queries = [pair["query"] for pair in pairs]
    losses = {name: fit.left_out_loss(getattr(fit, name), x, labels, queries) for name in ("fit_ramps", "fit_logistic")}
    assert losses["fit_ramps"] < losses["fit_logistic"] < 0.693
