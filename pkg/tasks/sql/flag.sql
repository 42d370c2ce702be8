-- $1 source, $2 horizon, $3 most rows.
with lost as materialized (
  select id from submitted_tasks
  where source = $1 and settled_at is null and needs_investigation_at is null and created_at < now() - $2::interval
  order by created_at
  limit $3
  for update skip locked
)
update submitted_tasks s set needs_investigation_at = now() from lost where s.id = lost.id
returning s.id, coalesce(s.task_id, ''), coalesce(s.idempotency_key, '')
