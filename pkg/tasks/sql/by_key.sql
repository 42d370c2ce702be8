select id, coalesce(task_id, ''), settled_at is not null from submitted_tasks where source = $1 and idempotency_key = $2
