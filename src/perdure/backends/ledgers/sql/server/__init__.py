"""What a server keeps in the ledger: API keys, audit, promotions, settings."""
