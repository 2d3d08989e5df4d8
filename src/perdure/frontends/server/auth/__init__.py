"""Who a request comes from: API keys, signed tokens, and what each may do."""
