"""What a ledger keeps for agent runtimes: the tables of spec 003."""
