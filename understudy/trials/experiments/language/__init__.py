"""The language of experiment files: how they are read and checked, and what their actions and expectations mean."""
