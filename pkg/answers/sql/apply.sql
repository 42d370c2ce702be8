-- Stores results by task and settles what was submitted for them: by task id,
-- and, where a create timed out and left the id open, by idempotency key.
-- Returns the inbox ids of those that are new.
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
submitted as (
  -- A row that somebody has locked is left to the reconciler: the answers are
  -- not to wait for it.
  select s.id
  from submitted_tasks s join input i on s.source = i.source and s.task_id = i.task_id
  where s.settled_at is null
  for update of s skip locked
),
settled as (
  update submitted_tasks s
  set settled_at = now()
  from submitted
  where s.id = submitted.id
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
returning inbox_id
