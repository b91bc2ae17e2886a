"""`clew hooks`"""
