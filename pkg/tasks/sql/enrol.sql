-- Registered messages that are to be asked for and have no row yet, the oldest
-- first. $1 source, $2 after, $3 most rows.
insert into submitted_tasks (source, task_id, created_at)
select m.source, m.message_id, m.registered_at
from messages m
where m.source = $1 and not m.final and m.registered_at < now() - $2::interval
  and not exists (select from submitted_tasks s where s.source = m.source and s.task_id = m.message_id)
order by m.registered_at
limit $3
on conflict (source, task_id) do nothing
