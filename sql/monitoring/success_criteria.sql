-- The five success criteria: the value of the last 24 hours, the target, and whether it is met.
--
-- Stuck documents are counted now. met is null without data, for example if there were no retries.
select
  c.criterion,
  round(c.value::numeric, 4) as value,
  c.unit,
  concat(c.comparison, ' ', c.threshold) as target,
  c.met,
  c.events
from public.ocr_success_criteria as c;
