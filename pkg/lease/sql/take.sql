-- Takes the lease or renews it; changes no row when another holds it.
insert into leases (name, holder, expires_at) values ($1, $2, now() + $3::interval)
on conflict (name) do update set holder = excluded.holder, expires_at = excluded.expires_at
where leases.holder = excluded.holder or leases.expires_at < now()
