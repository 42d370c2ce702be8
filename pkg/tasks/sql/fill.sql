-- Where the id was registered by itself as well, the row with the key is
-- settled in its favour.
update submitted_tasks s
set task_id = case when o.id is null then $2 end,
    settled_at = case when o.id is null then s.settled_at else coalesce(s.settled_at, now()) end
from (select 1) one
left join submitted_tasks o on o.task_id = $2 and o.source = (select source from submitted_tasks where id = $1) and o.id <> $1
where s.id = $1 and s.task_id is null
