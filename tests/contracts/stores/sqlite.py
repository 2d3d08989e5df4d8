"""The `sqlite` store in the contract suite."""

from tests.contracts.stores import Provider

PROVIDERS = {"sqlite": Provider("sqlite", lambda folder: {"path": str(folder / "memories.db")}, shared=True)}
