"""MCP: memory as tools for agents' clients, over stdio and over HTTP. Needs the extra `mcp`."""
