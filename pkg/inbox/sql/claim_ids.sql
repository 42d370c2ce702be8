-- Claims rows by id: the doorbell's path. Rows locked by another, finished, or
-- put off after a failure are left out. The lateral subquery keeps the lookup
-- of payloads a nested loop over one partition each, whatever the statistics say.
select i.id, i.source, i.event_key, i.event_type, i.subject, i.occurred_at, i.received_at, i.origin, i.traceparent,
       i.attempts, p.body
from inbox i
left join lateral (
  select body from inbox_payload where inbox_id = i.id and received_at = i.received_at limit 1
) p on true
where i.id = any($1::bigint[])
  and i.state in ('pending', 'waiting')
  and (i.state = 'pending' and i.attempts = 0 or i.next_attempt_at <= now())
order by i.id
for update of i skip locked
