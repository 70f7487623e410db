"""The flat arrays under a share-partition: three parallel columns, one row per offset from the start offset on.

`cells` holds state and delivery count, `tickets` the number of the lock (or of the delay) that a record is under, and
`companies` how many records travelled with it when it was last delivered. Rows are dropped at the front as the start
offset moves and added at the back as the log grows; nothing else moves.
"""

from __future__ import annotations

from array import array

NO_TICKET = 0
MAX_COMPANY = 0xFFFF


class Window:
    __slots__ = ("cells", "companies", "start", "tickets")

    def __init__(self, start: int) -> None:
        self.start = start
        self.cells = bytearray()
        self.tickets = array("Q")
        self.companies = array("H")

    @property
    def end(self) -> int:
        """The offset after the last row."""
        return self.start + len(self.cells)

    def grow(self, number: int, cell: int) -> None:
        self.cells.extend(bytes((cell,)) * number)
        self.tickets.extend(array("Q", (NO_TICKET,)) * number)
        self.companies.extend(array("H", (0,)) * number)

    def drop(self, number: int) -> None:
        del self.cells[:number]
        del self.tickets[:number]
        del self.companies[:number]
        self.start += number

    def put_tickets(self, first: int, last: int, ticket: int) -> None:
        self.tickets[first - self.start : last - self.start + 1] = array("Q", (ticket,)) * (last - first + 1)

    def put_companies(self, first: int, last: int, company: int) -> None:
        size = min(company, MAX_COMPANY)
        self.companies[first - self.start : last - self.start + 1] = array("H", (size,)) * (last - first + 1)

    def runs_under(self, ticket: int, first: int, last: int, allowed: bytes) -> list[tuple[int, int]]:
        """Ranges of offsets between first and last that are under this ticket and whose cell is one of the allowed."""
        low, high = max(0, first - self.start), min(len(self.cells), last - self.start + 1)
        found: list[tuple[int, int]] = []
        run_start = -1
        for index in range(low, high):
            if self.tickets[index] == ticket and self.cells[index] in allowed:
                if run_start < 0:
                    run_start = index
            elif run_start >= 0:
                found.append((self.start + run_start, self.start + index - 1))
                run_start = -1
        if run_start >= 0:
            found.append((self.start + run_start, self.start + high - 1))
        return found
