"""What the packaged instances and some packaged profiles are made of; the stored files are all that users need."""
