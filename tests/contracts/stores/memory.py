"""The `memory` store in the contract suite."""

from tests.contracts.stores import Provider

PROVIDERS = {"memory": Provider("memory", lambda folder: {})}
