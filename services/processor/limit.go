package processor

import "sync"

// limit is how many rows a batch of one kind may have now. It is halved by each batch that
// is rolled back whole, so that rows too large to be processed together are
// processed apart, and doubled again by each with rows that is committed.
type limit struct {
	most int

	mu     sync.Mutex
	halved int
}

func (l *limit) rows() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.most>>l.halved, 1)
}

// heed notes how a batch ended.
func (l *limit) heed(result outcome, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && len(result.rows) == 0:
	case err == nil:
		l.halved = max(l.halved-1, 0)
	case l.most>>l.halved > 1:
		l.halved++
	}
}
