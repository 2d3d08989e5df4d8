"""What a ledger keeps beside history: jobs, keys, promotions, sessions, audit, the agent runtime."""
