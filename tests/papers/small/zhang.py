"""Zhang et al. in small."""

from tests.papers.small.zhang_first import SMALL as FIRST
from tests.papers.small.zhang_second import SMALL as SECOND

SMALL = FIRST | SECOND
