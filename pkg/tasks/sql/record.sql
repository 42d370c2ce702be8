insert into submitted_tasks (source, idempotency_key) values ($1, $2)
on conflict (source, idempotency_key) do nothing
