"""Training configurations that a user names, judged by the referee, and what would make one fit."""
