"""Floor 3: order, policy and failure; the only floor that knows that two steps exist."""
