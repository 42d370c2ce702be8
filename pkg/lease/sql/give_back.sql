update leases set expires_at = '-infinity' where name = $1 and holder = $2
