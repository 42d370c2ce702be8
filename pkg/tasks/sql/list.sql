select id, source, idempotency_key, task_id, created_at, settled_at, polls, last_polled_at, last_poll_result, next_poll_at,
  needs_investigation_at
from submitted_tasks
where ($1::text is null or source = $1)
  and ($2 or settled_at is null)
  and (not $3 or needs_investigation_at is not null)
  and created_at < now() - $4::interval
order by created_at
limit $5
