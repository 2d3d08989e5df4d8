"""Parts of `benchmarks/model_cost.py`: scenes, a scripted service, its answers, environments and token counts."""
