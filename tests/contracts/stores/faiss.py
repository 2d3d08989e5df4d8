"""The `faiss` store in the contract suite."""

from tests.contracts.stores import Provider

PROVIDERS = {
    "faiss": Provider("faiss", lambda folder: {"path": str(folder / "faiss")}, engine="FAISS 1.15", shared=True)
}
