package delivery

import (
	"math/bits"
)

// latencies is a histogram of times whose buckets grow with the value, so that
// any number of times fits in little memory and a quantile is exact to within
// 1/128. Times are kept in microseconds; the last bucket holds all over an hour.
type latencies struct {
	buckets  [latencyBuckets]int
	n        int
	sum, max float64 // milliseconds
}

const (
	latencyExact   = 256 // below this, each microsecond has its bucket
	latencyHalf    = latencyExact / 2
	latencyBuckets = latencyExact + 24*latencyHalf
)

func (l *latencies) add(ms float64) {
	l.n++
	l.sum += ms
	l.max = max(l.max, ms)
	l.buckets[latencyBucket(uint64(ms*1000))]++
}

// latencyBucket is the bucket of a time in microseconds.
func latencyBucket(us uint64) int {
	if us < latencyExact {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len(latencyExact-1)
	return min(latencyExact+(shift-1)*latencyHalf+int(us>>shift)-latencyHalf, latencyBuckets-1)
}

// latencyOf is the greatest time of a bucket, in milliseconds.
func latencyOf(bucket int) float64 {
	if bucket < latencyExact {
		return float64(bucket) / 1000
	}
	shift := (bucket-latencyExact)/latencyHalf + 1
	base := uint64((bucket-latencyExact)%latencyHalf + latencyHalf)
	return float64((base+1)<<shift-1) / 1000
}

// quantiles are the usual ones, in milliseconds; none without times.
func (l *latencies) quantiles() map[string]float64 {
	result := make(map[string]float64)
	if l.n == 0 {
		return result
	}
	for _, q := range []struct {
		name string
		of   float64
	}{{"p50", .5}, {"p90", .9}, {"p99", .99}, {"p999", .999}} {
		result[q.name] = l.quantile(q.of)
	}
	result["mean"], result["max"] = l.sum/float64(l.n), l.max
	return result
}

func (l *latencies) quantile(of float64) float64 {
	rank, seen := int(of*float64(l.n-1))+1, 0
	for bucket, n := range l.buckets {
		if seen += n; seen >= rank {
			return min(latencyOf(bucket), l.max)
		}
	}
	return l.max
}
