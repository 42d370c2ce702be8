-- Results that the inbox has, of tasks registered after they came as well.
-- Rows that a processor is settling are left to it: waiting for them, in an
-- order that is not its own, could deadlock.
with arrived as materialized (
  select s.id
  from submitted_tasks s join inbox i on i.source = s.source and i.event_key = s.task_id
  where s.source = $1 and s.settled_at is null
  for update of s skip locked
)
update submitted_tasks s set settled_at = now() from arrived where s.id = arrived.id
