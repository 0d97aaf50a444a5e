"""Measuring endpoints."""
