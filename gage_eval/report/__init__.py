"""The report of a finished run: summary.json, the console's score table, the HTML page."""
