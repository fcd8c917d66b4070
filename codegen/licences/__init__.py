"""Licences and bills of materials: which foreign software each deliverable holds, under which licence, and whether that may be."""
