-- A pause is never shortened.
insert into poll_limits (source, paused_until, pause_reason) values ($1, now() + $2::interval, $3)
on conflict (source) do update
set paused_until = excluded.paused_until, pause_reason = excluded.pause_reason
where poll_limits.paused_until < excluded.paused_until
