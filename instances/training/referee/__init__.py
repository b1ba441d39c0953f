"""What a configuration holds and takes, counted anew from the shapes of its model."""
