package delivery

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

func TestPublic(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1",
		"255.255.255.255", "198.18.0.1", "203.0.113.9", "::1", "::", "fe80::1", "fd00::1", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
	} {
		if public(netip.MustParseAddr(a)) {
			t.Errorf("%s is taken for public", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"} {
		if !public(netip.MustParseAddr(a)) {
			t.Errorf("%s is not taken for public", a)
		}
	}
}

func TestQuantilesAreExactToAHundredth(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	var l latencies
	times := make([]float64, 10_000)
	for n := range times {
		times[n] = math.Exp(random.NormFloat64()*2) * 5 // from microseconds to seconds
		l.add(times[n])
	}
	slices.Sort(times)
	got := l.quantiles()
	for name, q := range map[string]float64{"p50": .5, "p90": .9, "p99": .99, "p999": .999, "max": 1} {
		want := times[int(q*float64(len(times)-1))]
		if math.Abs(got[name]-want) > want/100+.001 {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	var one latencies
	one.add(3.5)
	for name, ms := range one.quantiles() {
		if ms != 3.5 {
			t.Errorf("of one time, %s is %v", name, ms)
		}
	}
	if len((&latencies{}).quantiles()) != 0 {
		t.Error("of no time there are quantiles")
	}
	one.add(1e9) // past the last bucket
	if got := one.quantiles()["p999"]; got > 1e9 {
		t.Errorf("beyond the buckets: %v", got)
	}
}
