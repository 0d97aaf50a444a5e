"""Reports of measurements: figures, tables and plots, in the forms they are shown and written in."""
