"""Lessons as pages: served, and as a folder for a web server."""
