"""Output of measurements: tables, charts and statistics."""
