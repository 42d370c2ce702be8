-- insert.sql for a single delivery, without the machinery of a batch: a third
-- of the statement's own cost, which is what a sender on its own waits for.
with stored as (
  insert into inbox (source, event_key, event_type, subject, occurred_at, origin, body_hash, traceparent,
                     state, next_attempt_at, last_error)
  values ($1, $2, $3, $4, $5, $6, $7, $8,
          case when $9::text is null then 'pending' else 'quarantined' end::inbox_state,
          case when $9::text is null then now() + $12::interval end,
          $9)
  on conflict (source, event_key) do nothing
  returning id, source, event_key, received_at
),
payload as (
  insert into inbox_payload (inbox_id, received_at, body, headers)
  select id, received_at, $10, $11::jsonb from stored
)
select id, source, event_key from stored
