"""mem0's dialect: the routes that its unmodified client calls on its platform and on its open server.

These modules translate into the operations of `routes/`; routes that perdure does not implement answer 501.
"""
