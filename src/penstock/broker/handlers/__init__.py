"""One module per API family; each opens with the behaviour that it implements.

`HANDLERS` maps each API that Penstock answers to its handler. What is not in it is not advertised.
"""
