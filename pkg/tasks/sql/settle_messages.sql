-- Messages that have a final status, or are registered no more.
with settled as materialized (
  select s.id
  from submitted_tasks s
  where s.source = $1 and s.settled_at is null
    and not exists (select from messages m where m.source = s.source and m.message_id = s.task_id and not m.final)
  for update of s skip locked
)
update submitted_tasks s set settled_at = now() from settled where s.id = settled.id
