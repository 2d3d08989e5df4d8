"""The ledger's Alembic migrations, which are part of the package."""
