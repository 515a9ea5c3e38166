"""The failure report: figures, plots and the HTML page."""
