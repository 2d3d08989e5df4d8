"""The `markdown` store in the contract suite: files, with SQLite as their index."""

from tests.contracts.stores import Provider

PROVIDERS = {
    "markdown": Provider(
        "markdown",
        lambda folder: {"path": str(folder / "vault")},
        engine="files, with SQLite as their index",
        shared=True,
        atomic=False,
        examples=12,
    )
}
