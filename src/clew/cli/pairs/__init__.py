"""`clew pair`"""
