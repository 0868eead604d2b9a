"""The pages of finished and live runs over HTTP."""
