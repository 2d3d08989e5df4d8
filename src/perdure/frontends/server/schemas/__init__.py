"""The bodies that requests and responses of the REST interface have."""
