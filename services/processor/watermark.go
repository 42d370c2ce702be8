package processor

import (
	"sync"
	"time"
)

const (
	// watermarkSlack is how far below the watermark rows may still appear: a
	// row's due time is taken when its transaction begins, not when it ends.
	watermarkSlack = time.Minute
	// fullScanEvery is how often a scan looks from the beginning all the same,
	// for rows that were locked by somebody who then did not finish them.
	fullScanEvery = time.Minute
)

// watermark is the time before which nothing is due. It keeps scans from
// walking over the index entries of rows long finished, which pile up at the
// low end while a long transaction somewhere holds vacuum back.
type watermark struct {
	mu       sync.Mutex
	since    time.Time
	fullScan time.Time // the latest
}

// from returns where a scan that begins now has to begin.
func (w *watermark) from(now time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.fullScan) >= fullScanEvery {
		w.fullScan = now
		return time.Unix(0, 0)
	}
	return w.since
}

// nothingDue notes that a scan which began at the given time found no row.
func (w *watermark) nothingDue(began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if since := began.Add(-watermarkSlack); since.After(w.since) {
		w.since = since
	}
}

// foundBelow notes that a look from the beginning found rows: there may be more
// below the watermark than it took.
func (w *watermark) foundBelow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Unix(0, 0)
}
