"""`clew runs`"""
