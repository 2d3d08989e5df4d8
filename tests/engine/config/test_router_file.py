"""Spec 001's settings file, in YAML and in TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from perdure import Memory
from perdure.domain.errors import ConfigError
from perdure.engine.build import build
from perdure.engine.config.config import MemoryConfig, read_file

pytestmark = pytest.mark.covers("V24", "V59", "V60", "V61", "V88")

EXAMPLE: dict[str, Any] = {
    "memory": {
        "enabled": True,
        "auto_store": True,
        "milvus": {"address": "milvus:19530", "collection": "agentic_memory", "dimension": 384},
        "embedding": {"model": "all-MiniLM-L6-v2", "dimension": 384},
        "default_retrieval_limit": 5,
        "default_similarity_threshold": 0.6,
        "extraction_batch_size": 10,
    },
    "external_models": [
        {
            "llm_provider": "vllm",
            "model_role": role,
            "llm_endpoint": {"address": "qwen", "port": 8000},
            "llm_model_name": "qwen3",
            "llm_timeout_seconds": 30,
            "max_tokens": tokens,
            "temperature": 0.1,
        }
        for role, tokens in (("memory_rewrite", 100), ("memory_extraction", 500))
    ],
}
"""Spec 001 §10, whole."""

AS_TOML = """
[memory]
enabled = true
auto_store = true
default_retrieval_limit = 5
default_similarity_threshold = 0.6
extraction_batch_size = 10
[memory.milvus]
address = "milvus:19530"
collection = "agentic_memory"
dimension = 384
[memory.embedding]
model = "all-MiniLM-L6-v2"
dimension = 384
[[external_models]]
llm_provider = "vllm"
model_role = "memory_rewrite"
llm_endpoint = { address = "qwen", port = 8000 }
llm_model_name = "qwen3"
llm_timeout_seconds = 30
max_tokens = 100
temperature = 0.1
[[external_models]]
model_role = "memory_extraction"
llm_endpoint = { address = "qwen", port = 8000 }
llm_model_name = "qwen3"
"""


def written(tmp_path: Path, values: dict[str, Any] | str, name: str = "config.yaml") -> Path:
    file = tmp_path / name
    file.write_text(values if isinstance(values, str) else yaml.safe_dump(values), encoding="utf-8")
    return file


def read(tmp_path: Path, values: dict[str, Any]) -> MemoryConfig:
    return read_file(written(tmp_path, values))


@pytest.mark.covers("V59")
@pytest.mark.parametrize("kind", ["yaml", "toml"])
def test_the_specs_own_file(tmp_path: Path, kind: str) -> None:
    config = read_file(written(tmp_path, EXAMPLE if kind == "yaml" else AS_TOML, f"config.{kind}"))
    assert config.vector_store.provider == "milvus"
    assert config.vector_store.config == {"uri": "http://milvus:19530"}
    assert config.vector_store.collection_name == "agentic_memory"
    assert config.embedder.provider == "minilm"
    gateway = config.gateway
    assert (gateway.enabled, gateway.auto_store, gateway.extraction_batch_size) == (True, True, 10)
    assert (gateway.default_retrieval_limit, gateway.default_similarity_threshold) == (5, 0.6)
    assert config.extraction_llm is not None
    assert config.rewrite_llm is not None
    assert config.extraction_llm.provider == "openai"
    shared = {"model": "qwen3", "base_url": "http://qwen:8000/v1", "timeout": 30.0, "temperature": 0.1}
    assert config.extraction_llm.config == {**shared, "max_tokens": 500}
    assert config.rewrite_llm.config == {**shared, "max_tokens": 100}
    assert (config.chosen_curator, config.rewrite) == ("rules", "llm")
    engine = build(config)  # every setting is known to the provider that it goes to
    assert engine.kernel.extractor is not engine.kernel.rewriter


@pytest.mark.covers("V24", "V61")
def test_what_a_model_leaves_out_is_the_specs(tmp_path: Path) -> None:
    bare = {"llm_endpoint": {"address": "h", "port": 1}, "llm_model_name": "m"}
    roles = ("memory_rewrite", "memory_extraction")
    config = read(tmp_path, {"external_models": [{**bare, "model_role": role} for role in roles]})
    assert config.extraction_llm is not None
    assert config.rewrite_llm is not None
    told = {"model": "m", "base_url": "http://h:1/v1", "timeout": 30.0, "temperature": 0.1}
    assert config.rewrite_llm.config == {**told, "max_tokens": 100}
    assert config.extraction_llm.config == {**told, "max_tokens": 500}


@pytest.mark.covers("V88")
def test_without_models_the_rules_read_and_questions_stay(tmp_path: Path) -> None:
    config = read(tmp_path, {"memory": {"enabled": True}})
    assert config.extraction_llm is None
    assert (config.chosen_curator, config.rewrite) == ("rules", "prepend")
    only = {"model_role": "memory_rewrite", "llm_endpoint": {"address": "h", "port": 1}, "llm_model_name": "m"}
    config = read(tmp_path, {"external_models": [only]})
    assert (config.chosen_curator, config.rewrite) == ("rules", "llm")
    assert build(config).kernel.rewriter is not None


@pytest.mark.covers("V60")
def test_a_dimension_that_does_not_fit_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"memory\.embedding\.dimension must be 384") as told:
        read(tmp_path, {"memory": {"embedding": {"model": "all-MiniLM-L6-v2", "dimension": 1024}}})
    assert told.value.field == "memory.embedding.dimension"
    with pytest.raises(ConfigError, match=r"memory\.milvus\.dimension is 1024"):
        read(tmp_path, {"memory": {"milvus": {"address": "milvus:19530", "dimension": 1024}}})
    other = {"model": "Qwen/Qwen3-Embedding-0.6B", "dimension": 1024}
    config = read(tmp_path, {"memory": {"milvus": {"address": "m:1", "dimension": 1024}, "embedding": other}})
    assert config.embedder.config == {"model": "Qwen/Qwen3-Embedding-0.6B", "dimensions": 1024}


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"memory": {"retrieval_limit": 5}}, "memory.retrieval_limit"),
        ({"memory": {"default_retrieval_limit": 0}}, "memory.default_retrieval_limit"),
        ({"memory": {"default_similarity_threshold": 1.5}}, "memory.default_similarity_threshold"),
        ({"memory": {"milvus": {}}}, "memory.milvus.address"),
        ({"external_models": [{"model_role": "memory_rewrite"}]}, "external_models.0.llm_endpoint"),
        ({"external_models": [{"model_role": "memory_extract"}]}, "external_models.0.model_role"),
        ({"external_models": {"memory_rewrite": {}}}, "external_models"),
        ({"external_models": ["qwen3"]}, "external_models.0"),
        ({"memory": {}, "vector_stor": {}}, "vector_stor"),
    ],
)
def test_what_is_wrong_is_named_as_the_file_spells_it(tmp_path: Path, values: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as told:
        read(tmp_path, values)
    assert told.value.field == field


def test_two_models_of_one_role_and_those_of_other_roles(tmp_path: Path) -> None:
    model = EXAMPLE["external_models"][1]
    with pytest.raises(ConfigError, match="two models of the role memory_extraction"):
        read(tmp_path, {"external_models": [model, model]})
    config = read(tmp_path, {"external_models": [{"model_role": "guardrail", "anything": 1}, model]})
    assert config.extraction_llm is not None


def test_perdures_own_tables_stand_above_001s_and_variables_above_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"gateway": {"default_retrieval_limit": 7}, "vector_store": {"provider": "memory"}}
    monkeypatch.setenv("PERDURE_GATEWAY__EXTRACTION_BATCH_SIZE", "3")
    config = read(tmp_path, {**EXAMPLE, **own})
    assert config.gateway.default_retrieval_limit == 7
    assert config.gateway.extraction_batch_size == 3
    assert config.gateway.default_similarity_threshold == 0.6
    assert (config.vector_store.provider, config.vector_store.config) == ("memory", {})
    assert config.extraction_llm is not None


def test_a_yaml_file_of_perdures_own_settings(tmp_path: Path) -> None:
    settings = {"path": str(tmp_path / "here"), "embedder": {"provider": "hashed"}}
    with Memory.from_file(written(tmp_path, settings, "perdure.yml")) as memory:
        memory.add("I live in Oslo", user_id="ana")
        assert [item.memory for item in memory.get_all(user_id="ana").results] == ["User lives in Oslo"]


@pytest.mark.parametrize("text", ["a: [", "just words", "- 1\n- 2", "\x00"])
def test_what_is_no_table_of_settings(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read as YAML") as told:
        read_file(written(tmp_path, text))
    assert told.value.field == "path"
