package answers

import "testing"

func TestHardInput25_JobKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, want string }{
		{"", "task:t1"},
		{"job", "job"},
		{"job-r1", "job"},
		{"job-r10", "job"},
		{"job-rx", "job-rx"},
		{"job-r", "job-r"},
		{"job-r1x", "job-r1x"},
		{"job-r1-r2", "job-r1"},
		{"job-R1", "job-R1"},
		{"-r1", "-r1"},
		{"r1", "r1"},
		{"7", "7"},
		{"x-r1", "x"},
		{"job-r１", "job-r１"}, // full-width digit
	} {
		if got := JobKey(c.key, "t1"); got != c.want {
			t.Errorf("JobKey(%q) = %q, want %q", c.key, got, c.want)
		}
	}
}
