"""The write path: add, update, delete and forget, and the decisions behind them."""
