"""The engine in miniature: what every call should do, without locks, SQL or time of its own."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

LOCK = timedelta(seconds=20)
SWEEP_GAP = timedelta(seconds=90)
MAX_ATTEMPTS = 3
MAX_RESCUES = 3
PROBE = timedelta(seconds=30)
ATTEMPT = {
    "image": timedelta(seconds=900),
    "pdf": timedelta(seconds=7200),
    "index": timedelta(seconds=3600),
    "acte": timedelta(seconds=3600),
    "check": timedelta(seconds=300),
}
QUEUED = ("queued", "queued_for_pdf")
ENDED = ("completed", "cancelled", "failed")


@dataclass
class Document:
    """What the model knows of a document. Times of retries are taken over from the database."""

    id: str
    case: str
    name: str
    lane: str
    status: str
    sha256: str
    priority: int = 0
    attempts: int = 0
    retry_count: int = 0
    rescues: int = 0
    reading: int = 1
    token: str | None = None
    locked_at: datetime | None = None
    expires: datetime | None = None
    claimed_at: datetime | None = None
    completed_at: datetime | None = None
    outages: list[datetime] = field(default_factory=list)
    deadline: datetime | None = None
    retry_at: datetime | None = None
    deleted: bool = False
    letter: str | None = None
    results: int = 0
    pages: dict[tuple[int, str], dict[int, str]] = field(default_factory=dict)
    page_count: int | None = None
    saved_at: dict[tuple[int, int], datetime] = field(default_factory=dict)
    begun: tuple[str, str] | None = None  # token and invocation

    def is_begun(self, token: str) -> bool:
        """Tell whether an invocation has begun under this token."""
        return self.begun is not None and self.begun[0] == token

    @property
    def has_new_pages(self) -> bool:
        """Say whether the current claim saved a page that could be read."""
        return any(
            status != "failed" and self.saved_at[self.reading, number] >= _some(self.claimed_at)
            for number, status in self.open_pages.items()
        )

    @property
    def open_pages(self) -> dict[int, str]:
        """Give the pages of the current reading, by number."""
        return self.pages.get((self.reading, "null"), {})

    @property
    def known_pages(self) -> int:
        """Count the pages that the document must have at least."""
        return max([self.page_count or 0, *self.open_pages])

    @property
    def queued_word(self) -> str:
        """Say "queued" in the language of the lane."""
        return "queued_for_pdf" if self.lane == "pdf" else "queued"

    def unlock(self) -> None:
        """Take it away from its worker."""
        self.token = self.locked_at = self.expires = self.deadline = None


@dataclass
class Lane:
    """Whether a lane runs, and if not, what is known of the outage."""

    paused: str | None = None
    paused_at: datetime | None = None
    probe_at: datetime | None = None
    probe_token: str | None = None
    recovered_at: datetime | None = None
    outage_document: str | None = None

    def resume(self) -> None:
        """Let it run again."""
        self.paused = self.paused_at = self.probe_at = self.probe_token = None


class Model:
    """All documents and lanes. Every method mirrors one function of the database."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.lanes = {lane: Lane() for lane in ATTEMPT}
        self.swept_at: datetime | None = None
        self.resumed_at: datetime | None = None

    # What can be asked ---------------------------------------------------------------------

    def live(self, case: str, name: str) -> Document | None:
        """Find the current version of a name."""
        found = (
            d
            for d in self.documents.values()
            if d.case == case and d.name == name and not d.deleted
        )
        return next(found, None)

    def due(self, lane: str, now: datetime) -> list[Document]:
        """List what may be claimed in a lane."""
        return [
            d
            for d in self.documents.values()
            if d.lane == lane and d.status in QUEUED and (d.retry_at is None or d.retry_at <= now)
        ]

    def refusal(self, document: str, token: str | None) -> str | None:
        """Say why a call with this token may not touch the document."""
        known = self.documents.get(document)
        if known is None:
            return "DOCUMENT_NOT_FOUND"
        if token is not None and known.token != token:
            return "LOCK_LOST"
        if token is None and known.token is not None:
            return "DOCUMENT_LOCKED"
        return None

    # Steps shared by several functions -----------------------------------------------------

    def end_probe(self, token: str | None, now: datetime) -> None:
        """Let the next probe go later, if this document was one."""
        for lane in self.lanes.values():
            if token is not None and lane.probe_token == token:
                lane.probe_token, lane.probe_at = None, now + PROBE

    def give_back(self, doc: Document, now: datetime) -> None:
        """Put it back into its queue, or end it if nobody wants it any more."""
        self.end_probe(doc.token, now)
        doc.unlock()
        doc.status = "cancelled" if doc.deleted else doc.queued_word

    def bury(self, doc: Document, now: datetime) -> None:
        """Give it to HAC."""
        if doc.deleted:
            self.give_back(doc, now)
            return
        self.end_probe(doc.token, now)
        doc.unlock()
        doc.retry_at = None
        doc.status, doc.letter = "dead_letter", "pending"

    def fail(self, doc: Document, category: str, now: datetime) -> None:
        """Count a failed attempt."""
        doc.retry_count += 1
        if category == "permanent" or doc.retry_count >= MAX_ATTEMPTS:
            self.bury(doc, now)
        else:
            self.give_back(doc, now)

    def rescue(self, doc: Document, now: datetime) -> None:
        """Count an expired lock, unless the document got on."""
        doc.rescues += not doc.has_new_pages
        if doc.rescues > MAX_RESCUES:
            self.bury(doc, now)
        else:
            self.give_back(doc, now)

    def requeue(self, doc: Document) -> None:
        """Send it round again with fresh counts."""
        doc.unlock()
        doc.status, doc.retry_at = doc.queued_word, None
        doc.attempts = doc.retry_count = doc.rescues = 0
        if doc.letter is not None:
            doc.letter = "requeued"

    def abandon_letter(self, doc: Document) -> None:
        """Close what waited for a person."""
        if doc.letter in ("pending", "investigating"):
            doc.letter = "abandoned"

    def cancel(self, doc: Document, now: datetime) -> None:
        """End it unread."""
        self.end_probe(doc.token, now)
        doc.unlock()
        doc.status, doc.retry_at = "cancelled", None
        self.abandon_letter(doc)

    def supersede(self, doc: Document) -> None:
        """Make room for a newer upload of the same name."""
        doc.deleted, doc.retry_at = True, None
        if doc.status in (*QUEUED, "pending", "dead_letter", "pending_review"):
            doc.status = "cancelled"
        self.abandon_letter(doc)

    def sweep(self, now: datetime) -> int:
        """Take back what dead workers hold."""
        if self.swept_at is not None and now - self.swept_at > SWEEP_GAP:
            self.resumed_at = now
        self.swept_at = now
        taken = 0
        for doc in [d for d in self.documents.values() if d.token is not None]:
            taken += self._sweep_one(doc, now)
        return taken

    def _sweep_one(self, doc: Document, now: datetime) -> bool:
        period = _some(doc.expires) - _some(doc.locked_at)
        heard_again = self.resumed_at is None or self.resumed_at + period <= now
        if _some(doc.deadline) < now:
            self.fail(doc, "transient", now)
        elif _some(doc.expires) < now and heard_again:
            self.rescue(doc, now)
        else:
            return False
        return True

    # A claim -------------------------------------------------------------------------------

    def claimable(self, lanes: list[str], limit: int, now: datetime) -> dict[str, int]:
        """Say how many documents of each lane a claim has to return."""
        counts: dict[str, int] = {}
        for name in lanes:
            lane, left = self.lanes[name], limit - sum(counts.values())
            if lane.paused == "manual":
                continue
            if lane.paused == "outage":
                if _some(lane.probe_at) > now or lane.probe_token is not None:
                    continue
                left = min(left, 1)
            counts[name] = min(left, len(self.due(name, now)))
        return counts

    def start(self, doc: Document, token: str, now: datetime) -> None:
        """Hand a document to a worker."""
        lane = self.lanes[doc.lane]
        if lane.paused == "outage":
            lane.probe_token = token
        doc.status, doc.token, doc.retry_at = "processing", token, None
        doc.attempts += 1
        doc.locked_at = doc.claimed_at = now
        doc.expires, doc.deadline = now + LOCK, now + ATTEMPT[doc.lane]

    # The end of a reading ------------------------------------------------------------------

    def complete_refusal(self, document: str, token: str | None) -> str | None:
        """Say why a result is not taken."""
        refusal = self.refusal(document, token)
        if refusal is not None:
            return refusal
        doc = self.documents[document]
        if doc.status not in (*QUEUED, "processing", "pending", "pending_review"):
            return "WRONG_STATE"
        failed = sum(status == "failed" for status in doc.open_pages.values())
        if failed > 0.1 * doc.known_pages:
            return "TOO_MANY_FAILED_PAGES"
        return "PAGES_MISSING" if len(doc.open_pages) < doc.known_pages else None

    def refuse_result(self, doc: Document, refusal: str | None, now: datetime) -> None:
        """Count a failed attempt where one was made whose result lacks something."""
        if refusal == "PAGES_MISSING":
            doc.page_count = doc.known_pages
        if refusal in ("TOO_MANY_FAILED_PAGES", "PAGES_MISSING") and doc.token is not None:
            self.fail(doc, "unknown", now)

    def complete(self, doc: Document, now: datetime) -> None:
        """Write the result down."""
        if doc.known_pages or (doc.reading, "null") in doc.pages:
            doc.page_count = doc.known_pages
        for lane in self.lanes.values():
            if doc.token is not None and lane.probe_token == doc.token:
                lane.resume()
                lane.recovered_at, lane.outage_document = now, None
        doc.unlock()
        doc.completed_at = now
        doc.status, doc.retry_at = "completed", None
        doc.results += 1

    def outage(self, doc: Document, now: datetime) -> None:
        """Pause a lane until a probe comes through, unless the document alone meets the outage."""
        lane = self.lanes[doc.lane]
        since = doc.completed_at or datetime.min.replace(tzinfo=UTC)
        until = lane.recovered_at or since
        met_before = any(since < moment < until for moment in doc.outages)
        if lane.paused is None and met_before and lane.outage_document in (None, doc.id):
            lane.outage_document = doc.id
            self.fail(doc, "configuration", now)
            return
        doc.outages.append(now)
        doc.attempts -= 1
        self.give_back(doc, now)
        if lane.paused is None:
            lane.paused, lane.paused_at, lane.probe_at = "outage", now, now + PROBE

    def probes(self, name: str, now: datetime) -> set[str]:
        """List the documents of a paused lane that may be the next probe."""
        since, due = _some(self.lanes[name].paused_at), self.due(name, now)
        others = {d.id for d in due if not any(moment >= since for moment in d.outages)}
        return others or {d.id for d in due}

    def snapshot(self) -> dict[str, dict[str, object]]:
        """Show what the database must show too."""
        shown = "status attempts retry_count rescues token deleted letter page_count results lane"
        return {
            d.id: {k: v for k, v in dataclasses.asdict(d).items() if k in shown.split()}
            for d in self.documents.values()
        }


def _some(moment: datetime | None) -> datetime:
    assert moment is not None
    return moment
