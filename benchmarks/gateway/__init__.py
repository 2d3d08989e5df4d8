"""Loads on the gateway: what `benchmarks/gateway_latency.py` and `benchmarks/gateway_soak.py` are made of."""
