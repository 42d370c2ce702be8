-- Rows that were quarantined at their receipt: no attempt was made on them.
select i.id, i.source, i.received_at, i.traceparent, p.body, p.headers
from inbox i
left join lateral (
  select body, headers from inbox_payload where inbox_id = i.id and received_at = i.received_at limit 1
) p on true
where i.id = any($1::bigint[]) and i.state = 'quarantined' and i.attempts = 0
order by i.id
for update of i
