"""`clew threads`"""
