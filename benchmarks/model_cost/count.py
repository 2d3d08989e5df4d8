"""Count tokens with the tokenizers that vendors have published in packages of their own.

    python count.py < texts.json

Reads a JSON list of texts and prints `{vendor: [tokens of each text]}`. Run by the `tokenizers` environment, in which
nothing is downloaded: OpenAI's `tiktoken` brings no vocabulary, so that its o200k_base is taken from `bpe-openai`, and
`tiktoken` itself compares it with the hash that OpenAI published. Anthropic's last published tokenizer is that of
Claude 2; Google publishes none in a package.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import tiktoken
import tiktoken.load
from tiktoken_ext import openai_public
from tokenizers import Tokenizer

Count = Callable[[str], int]


def package(name: str) -> Path:
    """The folder of an installed package, which need not be importable: only its data is read."""
    spec = find_spec(name)
    assert spec is not None and spec.submodule_search_locations, f"{name} is not installed"
    return Path(spec.submodule_search_locations[0])


def counted_by(encoding: tiktoken.Encoding) -> Count:
    return lambda text: len(encoding.encode_ordinary(text))


def openai() -> Count:
    compressed = package("bpe_openai") / "data" / "o200k_base.tiktoken.gz"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "o200k_base.tiktoken"
        file.write_bytes(gzip.decompress(compressed.read_bytes()))
        published = tiktoken.load.load_tiktoken_bpe
        openai_public.load_tiktoken_bpe = lambda _, expected_hash: published(str(file), expected_hash)
        return counted_by(tiktoken.Encoding(**openai_public.o200k_base()))


def pattern_in(file: Path, name: str) -> str:
    """The raw string that a module assigns to a name."""
    return file.read_text(encoding="utf-8").split(f'{name} = r"""')[1].split('"""')[0]


def meta() -> Count:
    folder = package("llama_models") / "llama4"
    ranks = tiktoken.load.load_tiktoken_bpe(str(folder / "tokenizer.model"))
    pattern = pattern_in(folder / "tokenizer.py", "O200K_PATTERN")
    return counted_by(tiktoken.Encoding("llama4", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}))


def alibaba() -> Count:
    folder = package("dashscope")
    ranks = tiktoken.load.load_tiktoken_bpe(str(folder / "resources" / "qwen.tiktoken"))
    pattern = pattern_in(folder / "tokenizers" / "qwen_tokenizer.py", "PAT_STR")
    return counted_by(tiktoken.Encoding("qwen", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}))


def mistral() -> Count:
    file = package("mistral_common") / "data" / "tekken_240911.json"
    model = json.loads(file.read_text(encoding="utf-8"))
    config = model["config"]
    size = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(each["token_bytes"]): each["rank"] for each in model["vocab"][:size]}
    return counted_by(tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={}))


def anthropic() -> Count:
    tokenizer = Tokenizer.from_file(str(package("anthropic") / "tokenizer.json"))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


VENDORS = {"o200k_base": openai, "Llama 4": meta, "tekken": mistral, "Qwen": alibaba, "Claude 2": anthropic}


def main() -> None:
    texts = json.load(sys.stdin)
    counts = {}
    for vendor, load in VENDORS.items():
        count = load()
        counts[vendor] = [count(text) for text in texts]
    json.dump(counts, sys.stdout)


if __name__ == "__main__":
    main()
