update submitted_tasks set needs_investigation_at = now()
where source = $1 and settled_at is null and needs_investigation_at is null and created_at < now() - $2::interval
returning id, coalesce(task_id, ''), coalesce(idempotency_key, '')
