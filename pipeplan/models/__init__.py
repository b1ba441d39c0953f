"""Models of other frameworks as profiles and as the stages of a plan; its modules need the optional extras."""
