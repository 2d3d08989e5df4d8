"""The ledger's tables beside history: jobs, keys, promotions, sessions, audit, the agent runtime."""
