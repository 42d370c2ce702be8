-- Overdue tasks whose turn it is, each put off so that it is not handed out
-- again before its poll has had time to happen.
update submitted_tasks set next_poll_at = now() + $4::interval
where id in (
  select id from submitted_tasks
  where source = $1 and settled_at is null and task_id is not null and created_at < now() - $2::interval
    and (next_poll_at is null or next_poll_at <= now())
  order by coalesce(next_poll_at, created_at)
  limit $3
  for update skip locked
)
returning id, task_id
