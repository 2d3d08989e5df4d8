"""A load on the server: what `benchmarks/service_load.py` is made of."""
