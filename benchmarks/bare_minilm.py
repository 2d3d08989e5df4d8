"""MiniLM without perdure: what a new process has to do for its first vector."""

from __future__ import annotations

RUN = """
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
tokenizer = tokenizers.Tokenizer.from_file(tokenizer_file)
ids = numpy.array([tokenizer.encode(text).ids], dtype=numpy.int64)
size = ids.shape[1]
known = {
    "input_ids": ids,
    "attention_mask": numpy.ones_like(ids),
    "token_type_ids": numpy.zeros_like(ids),
    "positions": numpy.arange(size)[None],
    "apart": numpy.zeros((1, 1, size, size), numpy.float32),
    "means": numpy.full((1, size), 1 / size, numpy.float32),
}
session.run(None, {node.name: known[node.name] for node in session.get_inputs()})
"""
"""Code that embeds `text` with the files `graph` and `tokenizer_file`.

It expects `numpy`, `onnxruntime` and `tokenizers` to be imported: whether that counts is for its user to say.
"""
