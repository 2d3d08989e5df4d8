"""What stores are called in their engines stays as it is: another name would lose every row under the old one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.vector_stores import azure_ai_search as index
from perdure.backends.vector_stores import pinecone
from perdure.backends.vector_stores import pinecone as client
from perdure.backends.vector_stores.chroma import filter
from perdure.backends.vector_stores.chroma import store as rows
from perdure.backends.vector_stores.common.documents import digest, encode
from perdure.backends.vector_stores.elasticsearch import index as _elasticsearch_filter
from perdure.backends.vector_stores.elasticsearch import index as _elasticsearch_index
from perdure.backends.vector_stores.milvus import filter as _milvus_filter
from perdure.backends.vector_stores.milvus import store as _milvus_rows
from perdure.backends.vector_stores.pgvector import sql as _pgvector_text
from perdure.backends.vector_stores.pgvector import store as tables
from perdure.backends.vector_stores.qdrant import filter as _qdrant_filter
from perdure.backends.vector_stores.qdrant import folder
from perdure.backends.vector_stores.qdrant import store as server
from perdure.backends.vector_stores.weaviate import objects

ODD = ("a/b", "ÜNÏ " * 30, "lone \ud800")

COLLECTIONS: dict[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    "azure_ai_search": (
        partial(index.index_name, "perdure"),
        (
            "perdure-a-b-7d42099e1af8004b",
            "perdure-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-805a2177dd744986",
            "perdure-lone-a9a9b777877920b2",
        ),
    ),
    "chroma": (
        rows.collection_name,
        (
            "perdure.a_b.230946ed745902acf0bcb8a5605f7c24",
            "perdure._N_N_N_N_N_N_N_N_N_N_N_N_N_N_N_N_N_N_N_N.9f4f64a0b1c85899fa6c74806eb06c25",
            "perdure.lone_.a51cc14e26dd3268c37d397fcb76350e",
        ),
    ),
    "elasticsearch": (
        partial(_elasticsearch_index.alias_of, "perdure"),
        (
            "perdure-a-b-0debd2558bca8fa0",
            "perdure-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-19ad8db70278fbfd",
            "perdure-lone-114cb9c8b2244260",
        ),
    ),
    "milvus": (
        _milvus_rows.physical_name,
        (
            "perdure_a_b_8f1d19cf4f86",
            "perdure__N___N___N___N___N___N___N___N___N___N___N___N___N___N___N___cc26e24fe9fe",
            "perdure_lone___70d910915815",
        ),
    ),
    "pgvector": (
        tables.table_name,
        (
            "perdure_a_b_a05a73f66eddd41c20ff",
            "perdure__N_N_N_N_N_N_N_N_N_N_N_N_N_N_N_f6f335a0a4eca46287bf",
            "perdure_lone__4e0e735e53f4c7fce807",
        ),
    ),
    "pinecone": (
        pinecone.plain_name,
        (
            "a_b~a05a73f66eddd41c20ff",
            "_N___N___N___N___N___N___N___N___N___N__~f6f335a0a4eca46287bf",
            "lone__~4e0e735e53f4c7fce807",
        ),
    ),
    "qdrant": (
        server.plain_name,
        (
            "a-b.a05a73f66eddd41c20ff",
            "-N-N-N-N-N-N-N-N-N-N-N-N-N-N-N-N-N-N-N-N.f6f335a0a4eca46287bf",
            "lone-.4e0e735e53f4c7fce807",
        ),
    ),
    "qdrant, a folder": (
        folder.folder_name,
        (
            "a-b.a05a73f66eddd41c20ff",
            "-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n-n.f6f335a0a4eca46287bf",
            "lone-.4e0e735e53f4c7fce807",
        ),
    ),
    "weaviate": (
        partial(objects.class_name, "perdure"),
        (
            "Perdure_a_b_8f1d19cf4f86",
            "Perdure__n___n___n___n___n___n___n___n___n___n___n___n___n___n___n___cc26e24fe9fe",
            "Perdure_lone___70d910915815",
        ),
    ),
}


@pytest.mark.parametrize("store", COLLECTIONS)
def test_collections_keep_their_names(store: str) -> None:
    name_of, names = COLLECTIONS[store]
    assert tuple(map(name_of, ODD)) == names


KEYS = ("575aa62220a2c597f5def8d269b6acac", "68de1439304f10f1b8c1abba1eeaceb6", "447a5236a924d0b630a8d16ab239dd82")
ROWS: dict[str, Callable[[str], str]] = {
    "azure_ai_search": index.key_of,
    "elasticsearch": _elasticsearch_index.key_of,
    "milvus": _milvus_rows.key_of,
    "pinecone": client.record_id,
    "weaviate": lambda id: objects.uuid_of(id).replace("-", ""),
}


@pytest.mark.parametrize("store", ROWS)
def test_rows_keep_their_keys(store: str) -> None:
    assert tuple(map(ROWS[store], ODD)) == KEYS


def test_chromas_rows_keep_their_ids() -> None:
    assert [rows.row_id(id) for id in ODD] == [
        "#230946ed745902acf0bcb8a5605f7c24",
        "#9f4f64a0b1c85899fa6c74806eb06c25",
        "#a51cc14e26dd3268c37d397fcb76350e",
    ]


def test_weaviates_objects_keep_their_slots() -> None:
    for id, key in zip(ODD, KEYS, strict=True):
        made = objects.object_of(encode(id, None, {}, word_tokens=False), "C")
        assert made.uuid.replace("-", "") == key
        assert made.properties.non_ref_properties["slot"] == int(key[:12], 16)


def test_what_stands_for_a_text_inside_a_row_stays() -> None:
    assert [folder.place_of(stem) for stem in ODD] == [2193284967, 1228097936, 3388624794]
    assert [_qdrant_filter.steps_of(f"metadata.{key}")[1] for key in ODD] == [
        "-a05a73f66eddd41c20ff",
        "-f6f335a0a4eca46287bf",
        "-4e0e735e53f4c7fce807",
    ]
    assert [_milvus_filter.scope_text(user) for user in ODD] == [
        "~c73a0e422e9a4fb6a732c02190a594bd8274ac0a",
        "~b2dd9e4fe2fd2bca27c5113cd4c898d37989cfbf",
        "~32ec7b9a929d5e4a571f5688a2adcb9c81c431da",
    ]
    assert [_elasticsearch_filter.places({path: 1.0}, {})[0][:20] for path in ODD] == [
        "4a7fc3f22893bb7a7980",
        "0579c75de57c02b4e811",
        "289e96d1617fa0783cc3",
    ]
    assert [filter.span_key("number", path) for path in ODD] == [
        "number:a/b",
        "number#9f4f64a0b1c85899fa6c74806eb06c25",
        "number#a51cc14e26dd3268c37d397fcb76350e",
    ]
    assert [objects.keyword(text * 40) for text in ODD[:2]] == [
        "f03388057f9169a2b91c",
        "e609d1e5b3d151b0ffbd",
    ]
    assert [_pgvector_text.word_key(text * 40) for text in ODD[:2]] == [
        "#a5b3c5f815ade6a15b1de51a17648569",
        "#85c6129775271cced4408ed96fcf80cd",
    ]
    assert [_pgvector_text.key_text(text * 400)[-40:] for text in ODD] == [
        "0dc88a3e54b78192bd8a02dc2fc29acbab9dc53a",
        "bc154c10003f7c5ce43fa8ea747df425287a9220",
        "4fd4eff7e8676f6b8775ecac3700d30b693acf46",
    ]


@given(st.text(st.characters()), st.text(st.characters()), st.integers(8, 64))
def test_every_name_has_a_digest_of_the_size_that_is_asked_for(one: str, other: str, size: int) -> None:
    assert re.fullmatch("[0-9a-f]*", digest(one, size))
    assert len(digest(one, size)) == 2 * size
    assert (digest(one, size) == digest(other, size)) == (one == other)
