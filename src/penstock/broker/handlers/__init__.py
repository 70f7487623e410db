"""One module per API family; each opens with the behaviour that it implements.

`table` says which module answers which API.
"""
