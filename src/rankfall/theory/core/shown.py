"""How answers show themselves: as a rich table in a terminal, as text, and as HTML in a notebook."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


class Shown(ABC):
    """Shows itself as a rich table: in a terminal, as text, and as HTML in a notebook."""

    @abstractmethod
    def __rich__(self) -> "Table":
        """The table."""

    @abstractmethod
    def _rows(self) -> list[tuple[str, ...]]:
        """The head and the rows."""

    def __str__(self) -> str:
        from rich.console import Console

        text = StringIO()
        Console(width=140, no_color=True, file=text).print(self)
        return text.getvalue()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
        for row in rows:
            cells = "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in row)
            lines.append(f"<tr>{cells}</tr>")
        return "<table>" + "".join(lines) + "</table>"

    def _table(self, title: str, shares: Sequence[int], coloured: int, colours: Sequence[str]) -> "Table":
        """The rows as a table; the cells of the column `coloured` have a colour each."""
        from rich.table import Table
        from rich.text import Text

        head, *rows = self._rows()
        table = Table(title=title, title_justify="left", show_lines=True, expand=True)
        for name, share in zip(head, shares, strict=True):
            table.add_column(name, ratio=share, overflow="fold")
        for row, colour in zip(rows, colours, strict=True):
            cells = [Text(cell) for cell in row]
            cells[coloured].stylize(colour)
            table.add_row(*cells)
        return table
