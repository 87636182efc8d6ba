-- Functions that are switched off. To switch one on again:
--   update public.edge_function_config set enabled = true where function_name = '…';
select c.function_name, c.description, c.updated_at
from public.edge_function_config as c
where not c.enabled
order by c.function_name;
