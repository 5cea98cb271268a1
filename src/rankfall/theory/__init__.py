"""What the papers foresee: one file a result."""

from rankfall.theory.time_course import effective_start, time_course

__all__ = ["effective_start", "time_course"]
