-- Takes effects that are due, of each kind no more than it has places for, so
-- that a kind whose target is down keeps no other waiting.
-- $1 sources and $2 names of the kinds, $3 most of each, $4 leases, $5 watermarks:
-- nothing is due before them, so dead index entries there are not visited; $6
-- whether those are taken, too, whose processor let its lease run out.
with due as materialized (
  select d.id, d.claimed_at, kind.lease
  from unnest($1::text[], $2::text[], $3::integer[], $4::interval[], $5::timestamptz[]) as kind(source, name, most, lease, since)
  cross join lateral (
    select e.id, e.claimed_at from effects e
    where e.source = kind.source and e.name = kind.name
      and e.state <> 'performed' -- which the index serves
      and e.state = 'pending'
      and e.next_attempt_at >= kind.since
      and e.next_attempt_at <= now()
      and (e.claimed_at is null or $6)
    order by e.next_attempt_at
    limit kind.most
    for update skip locked
  ) d
),
claimed as (
  update effects e
  set attempts = e.attempts + 1, claimed_at = now(), next_attempt_at = now() + due.lease
  from due
  where e.id = due.id
  returning e.id, e.source, e.event_key, e.name, e.inbox_id, e.received_at, e.change, e.traceparent, e.attempts,
    due.claimed_at is not null as repeated
)
select c.id, c.source, c.event_key, c.name, c.received_at, c.change, c.traceparent, c.attempts, c.repeated,
  i.event_type, i.subject, i.occurred_at, coalesce(i.origin::text, ''), p.body, p.headers
from claimed c
left join inbox i on i.id = c.inbox_id -- deleted by an operator: it is given up, without its body
left join lateral (
  select body, headers from inbox_payload where inbox_id = c.inbox_id and received_at = c.received_at limit 1
) p on true
order by c.id
