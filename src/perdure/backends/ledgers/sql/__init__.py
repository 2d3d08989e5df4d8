"""The ledger in SQL, for SQLite and PostgreSQL."""
