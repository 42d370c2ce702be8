package processor

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTableGaugeShowsTheWholeOfOneCount(t *testing.T) {
	t.Parallel()
	g := newTableGauge("rows", "Help.", []labelValues{{"a", "pending"}}, "source", "state")
	show := func(want string) {
		t.Helper()
		if want != "" {
			want = "# HELP rows Help.\n# TYPE rows gauge\n" + want
		}
		if err := testutil.CollectAndCompare(g, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}
	show("") // nothing is known
	g.show(nil)
	show("rows{source=\"a\",state=\"pending\"} 0\n")
	g.show(map[labelValues]float64{{"a", "pending"}: 3, {"gone", "waiting"}: 2})
	show("rows{source=\"a\",state=\"pending\"} 3\nrows{source=\"gone\",state=\"waiting\"} 2\n")
	g.show(map[labelValues]float64{{"a", "waiting"}: 1})
	show("rows{source=\"a\",state=\"pending\"} 0\nrows{source=\"a\",state=\"waiting\"} 1\n")
}
