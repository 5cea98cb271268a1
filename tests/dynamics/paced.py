"""`descent` in pieces of any size: its numbers must not depend on them."""

import inspect

from rankfall import descent
from rankfall.dynamics._descent.driver import run
from rankfall.dynamics._descent.pace import Pace
from rankfall.dynamics._descent.plan import plan

SHORT = Pace(records=2)  # runs of any number of records are then made of the same compiled piece, many times


def paced(pace=SHORT):
    """`descent` at this pace."""

    def call(*args, **kwargs):
        given = inspect.signature(descent).bind(*args, **kwargs)
        given.apply_defaults()
        how = {name: given.arguments.pop(name) for name in ("resume", "checkpoint", "show")}
        return run(plan(**given.arguments), pace, **how)

    return call
