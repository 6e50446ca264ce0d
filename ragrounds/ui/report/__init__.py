"""Report as one HTML file that needs nothing outside itself."""
