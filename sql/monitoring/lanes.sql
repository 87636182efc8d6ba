-- Each lane: whether and why it is paused, and its limits.
select
  l.lane,
  l.paused_at,
  l.pause_kind,
  l.pause_reason,
  l.probe_at,
  l.max_attempts,
  l.max_rescues,
  l.attempt_seconds
from public.lanes as l
order by l.lane;
