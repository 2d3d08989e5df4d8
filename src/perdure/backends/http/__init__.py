"""HTTP clients: model servers, remote services, downloads."""
