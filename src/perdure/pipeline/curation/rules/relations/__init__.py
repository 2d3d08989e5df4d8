"""Extract entities and relations from memories, resolve names, and derive when each relation holds."""
