"""The claims as a page for a browser, and as Markdown tables."""
