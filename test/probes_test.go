package test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/catchwater/catchwater/test/harness"
)

// series returns the series that a service exposes, without their values.
func series(t *testing.T, service *harness.Service) []string {
	t.Helper()
	response, err := http.Get("http://" + service.HealthAddr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "catchwater_") {
			all = append(all, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	return slices.Sorted(slices.Values(all))
}

// TestProbesMakeNoSeries tries an ingress with sources, paths, methods, headers
// and signatures that nobody configured: its metrics stay as they were at its
// start, but for their values.
func TestProbesMakeNoSeries(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	before := series(t, ingress)
	for n := range 300 {
		name := rand.Text()
		for _, path := range []string{"/hooks/" + name, "/hooks/" + name + "/", "/" + name, "/hooks/answers/" + name, "/hooks/answers?" + name} {
			method := []string{http.MethodPost, http.MethodGet, "X" + name}[n%3]
			request, err := http.NewRequest(method, "http://"+ingress.Addr+path, strings.NewReader(name))
			if err != nil {
				t.Fatal(err)
			}
			if signed := []string{"", name, "t=1,v1=" + name, "t=1767323045,v1=" + strings.Repeat("0", 64)}[n%4]; signed != "" {
				request.Header.Set("Webhook-Signature", signed)
			}
			request.Header.Set(name, name)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode < 400 {
				t.Fatalf("%s %s is answered %s", method, path, response.Status)
			}
		}
	}
	after := series(t, ingress)
	if added := slices.DeleteFunc(slices.Clone(after), func(s string) bool { return slices.Contains(before, s) }); len(added) > 0 {
		t.Errorf("probes made %d series, the first of them %s", len(added), added[0])
	}
	if n := ingress.Metric("catchwater_ingress_unknown_source_total"); n == 0 {
		t.Error("the probes were not counted")
	}
	for _, outcome := range []string{"missing", "malformed", "mismatch"} {
		if n := ingress.Metric(fmt.Sprintf(`catchwater_ingress_deliveries_total{outcome="rejected_%s",source="answers"}`, outcome)); n == 0 {
			t.Errorf("no probe was counted as %s", outcome)
		}
	}
}
