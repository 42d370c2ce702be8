select trim_default_payloads($1, $2)
