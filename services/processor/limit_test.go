package processor

import (
	"errors"
	"testing"

	"github.com/catchwater/catchwater/pkg/inbox"
)

func TestLimitHalvesAndDoubles(t *testing.T) {
	t.Parallel()
	l := limit{most: 10}
	for n, want := range []int{5, 2, 1, 1, 1} {
		l.heed(outcome{}, errors.New("rolled back"))
		if got := l.rows(); got != want {
			t.Errorf("after %d failures: %d rows, want %d", n+1, got, want)
		}
	}
	for n, want := range []int{2, 5, 10, 10} {
		l.heed(outcome{rows: make([]inbox.Row, 1)}, nil)
		if got := l.rows(); got != want {
			t.Errorf("after %d commits: %d rows, want %d", n+1, got, want)
		}
	}
}
