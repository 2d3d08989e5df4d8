"""mem0's dialect: what its own client, unmodified, sends to its platform, and what it sends to its open server.

Served are the routes by which memories are kept, found, changed and told of; of the rest each says that it is not.
"""
