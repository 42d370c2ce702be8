-- Claims due rows: the path of lost messages, retries and an absent broker.
-- $1 watermark: nothing is due before it, so dead index entries there are not
-- visited; $2 how far ahead rows that were never tried are taken (0, or the
-- grace while the doorbell is known not to ring); $3 most rows.
select i.id, i.source, i.event_key, i.event_type, i.subject, i.occurred_at, i.received_at, i.origin, i.traceparent,
       i.attempts, p.body
from (
  select id, source, event_key, event_type, subject, occurred_at, received_at, origin, traceparent, attempts
  from inbox
  where state <> 'processed'
    and next_attempt_at >= $1
    and next_attempt_at <= now() + $2::interval
    and (next_attempt_at <= now() or state = 'pending' and attempts = 0)
  order by next_attempt_at
  limit $3
  for update skip locked
) i
left join lateral (
  select body from inbox_payload where inbox_id = i.id and received_at = i.received_at limit 1
) p on true
