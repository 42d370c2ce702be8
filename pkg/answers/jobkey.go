package answers

// JobKey names the job that a task was for: its idempotency key without one
// trailing -r<digits>, which is how a resubmission is told from the first try.
// A key that is nothing but such a suffix is kept whole, and a task without a
// key is a job of its own, or all such tasks would be taken for one job.
func JobKey(idempotencyKey, taskID string) string {
	if idempotencyKey == "" {
		return "task:" + taskID
	}
	end := len(idempotencyKey)
	for end > 0 && idempotencyKey[end-1] >= '0' && idempotencyKey[end-1] <= '9' {
		end--
	}
	if end < len(idempotencyKey) && end > 2 && idempotencyKey[end-2:end] == "-r" {
		return idempotencyKey[:end-2]
	}
	return idempotencyKey
}
