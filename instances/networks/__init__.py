"""Networks as users have them: known ones by their shapes, profiles and tables. All of them become problems.

There is one way: a network, a table or a model of another framework becomes a profile (`profile/`), and `from_profile`
of each kind makes a problem of it on a cluster.
"""
