"""The gateway's policy: what is recalled before a model is asked, and what is kept of its answer (specs 001, 002)."""
