"""One module per API family; each opens with the behavior that it implements.

`table` says which module answers which API.
"""
