"""What a ledger keeps for a service beside the memories: jobs, keys, promotions and the audit."""
