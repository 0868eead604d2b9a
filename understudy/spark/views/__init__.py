"""The tables of a replay as SQL: `definitions` has the text of each view, `lake_views` runs it over a lake."""
