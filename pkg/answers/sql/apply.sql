-- Stores results by task and settles what was submitted for them: by task id,
-- and, where a create timed out and left the id open, by idempotency key.
-- $1 sources, $2 task ids, $3 job keys, $4 idempotency keys, $5 task types,
-- $6 statuses, $7 created at, $8 credits, $9 responses, $10 repaired,
-- $11 inbox ids.
with input as materialized (
  select source, task_id, job_key, idempotency_key, task_type, status, created_at, credits_charged, response, repaired,
         inbox_id
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::text[],
              $9::text[], $10::boolean[], $11::bigint[])
    as t(source, task_id, job_key, idempotency_key, task_type, status, created_at, credits_charged, response, repaired,
         inbox_id)
),
settled as (
  update submitted_tasks s
  set settled_at = now()
  from input i
  where s.source = i.source and s.task_id = i.task_id and s.settled_at is null
),
filled as (
  update submitted_tasks s
  set settled_at = now(),
      task_id = case
        when exists (select 1 from submitted_tasks o where o.source = i.source and o.task_id = i.task_id) then null
        else i.task_id
      end
  from input i
  where s.source = i.source and s.idempotency_key = i.idempotency_key and s.task_id is null and s.settled_at is null
)
insert into answers (source, task_id, job_key, idempotency_key, task_type, status, created_at, credits_charged,
                     response, response_repaired, inbox_id)
select source, task_id, job_key, idempotency_key, task_type, status, created_at, credits_charged::numeric,
       response::jsonb, repaired, inbox_id
from input
order by source, task_id
on conflict (source, task_id) do nothing
