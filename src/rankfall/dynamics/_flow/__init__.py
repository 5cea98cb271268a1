"""Gradient flow to a tolerance."""

from rankfall.dynamics._flow.driver import FlowWarning, flow

__all__ = ["FlowWarning", "flow"]
