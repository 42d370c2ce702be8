select trim_effects($1, $2)
