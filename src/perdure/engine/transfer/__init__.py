"""Export, import, copies and backups."""
