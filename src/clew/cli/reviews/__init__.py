"""`clew review`"""
