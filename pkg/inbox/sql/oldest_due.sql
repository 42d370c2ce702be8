select min(next_attempt_at) from inbox where state in ('pending', 'waiting')
