"""Starts perdure's MCP server inside the bundle, with the arguments of its manifest."""

import sys

from perdure.frontends.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["mcp"]
    main()
