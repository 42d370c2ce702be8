-- Stores the rows whose key is new, each with its payload, and returns those.
-- $1 sources, $2 event keys, $3 event types, $4 subjects, $5 occurred at,
-- $6 origins, $7 body hashes, $8 traceparents, $9 quarantine reasons,
-- $10 bodies, $11 headers; $12 grace.
-- Sorted, so that two batches with keys in common wait instead of deadlocking.
with input as materialized (
  select source, event_key, event_type, subject, occurred_at, origin, body_hash, traceparent, quarantine, body, headers
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::inbox_origin[], $7::bytea[], $8::text[],
              $9::text[], $10::bytea[], $11::text[])
    as t(source, event_key, event_type, subject, occurred_at, origin, body_hash, traceparent, quarantine, body, headers)
),
stored as (
  insert into inbox (source, event_key, event_type, subject, occurred_at, origin, body_hash, traceparent,
                     state, next_attempt_at, last_error)
  select source, event_key, event_type, subject, occurred_at, origin, body_hash, traceparent,
         case when quarantine is null then 'pending' else 'quarantined' end::inbox_state,
         case when quarantine is null then now() + $12::interval end,
         quarantine
  from input
  order by source, event_key
  on conflict (source, event_key) do nothing
  returning id, source, event_key, received_at
),
payload as (
  insert into inbox_payload (inbox_id, received_at, body, headers)
  select stored.id, stored.received_at, input.body, input.headers::jsonb
  from stored join input using (source, event_key)
)
select id, source, event_key from stored
