-- The next moment at which a poll may be made; each call takes one.
insert into poll_limits (source, next_slot_at) values ($1, clock_timestamp() + $2::interval)
on conflict (source) do update
set next_slot_at = greatest(poll_limits.next_slot_at, clock_timestamp()) + $2::interval
returning next_slot_at - $2::interval - clock_timestamp() as wait,
  case when paused_until > clock_timestamp() then paused_until end
