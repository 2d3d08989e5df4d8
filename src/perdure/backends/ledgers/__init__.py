"""The ledger providers."""
