package answerline

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

func TestWaitsAddUpTo21To43Minutes(t *testing.T) {
	t.Parallel()
	least, most := time.Duration(1<<62), time.Duration(0)
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, seed))
		var total time.Duration
		for attempt := 1; attempt < maxAttempts; attempt++ {
			base := 5 * time.Second << (attempt - 1)
			w := wait(attempt, random)
			if w < base/2 || w > base {
				t.Fatalf("wait %d is %s, want %s to %s", attempt, w, base/2, base)
			}
			total += w
		}
		least, most = min(least, total), max(most, total)
	}
	if least < 1277*time.Second || most > 2555*time.Second {
		t.Errorf("the waits add up to %s to %s, want 21.3 to 42.6 minutes", least, most)
	}
	if least > 24*time.Minute || most < 40*time.Minute {
		t.Errorf("the waits add up to %s to %s: the random part is not up to half", least, most)
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	c := Contract()
	if c.MaxAttempts != 10 || c.Timeout != 15*time.Second {
		t.Errorf("%d attempts of %s", c.MaxAttempts, c.Timeout)
	}
	h := make(http.Header)
	at := time.Unix(1700000000, 0)
	c.Headers(h, "wh_1", at, []string{"a", "b"}, []byte("{}"))
	if h.Get("Webhook-Id") != "wh_1" || h.Get("Webhook-Signature") != delivery.Sign([]string{"a", "b"}, at, []byte("{}")) {
		t.Errorf("the headers are %v", h)
	}
}
