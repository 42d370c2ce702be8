select id, coalesce(task_id, '') from submitted_tasks where source = $1 and idempotency_key = $2
