"""`clew demo`"""
