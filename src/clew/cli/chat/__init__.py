"""`clew chat`: a prompt loop on one thread."""
