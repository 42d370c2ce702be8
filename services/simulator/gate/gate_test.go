package gate_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/gate"
)

// open returns a gate with something behind it, and what asks for that.
func open() (*gate.Gate, func(authorization string) *httptest.ResponseRecorder) {
	g := gate.New("sim-key", 1)
	e := echo.New()
	e.Group("/v1", g.Admit).GET("/:id", func(c echo.Context) error {
		g.Count("show")
		return c.String(http.StatusOK, gate.PathID(c))
	})
	return g, func(authorization string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodGet, "/v1/a%2Fb", nil)
		request.Header.Set("Authorization", authorization)
		answer := httptest.NewRecorder()
		e.ServeHTTP(answer, request)
		return answer
	}
}

const right = "Bearer sim-key"

func TestAuthorization(t *testing.T) {
	t.Parallel()
	g, ask := open()
	wrong := []string{"", "sim-key", "Bearer", "Bearer ", "Bearer other", "bearer sim-key", "Bearer sim-key "}
	for _, header := range wrong {
		if answer := ask(header); answer.Code != http.StatusUnauthorized || !strings.Contains(answer.Body.String(), `{"error":{"code":"UNAUTHORIZED"`) {
			t.Errorf("%q is answered %d %s", header, answer.Code, answer.Body)
		}
	}
	if answer := ask(right); answer.Code != http.StatusOK || answer.Body.String() != "a/b" {
		t.Errorf("the right key is answered %d %s", answer.Code, answer.Body)
	}
	if c := g.Counts(); c["unauthorized"] != len(wrong) || c["show"] != 1 {
		t.Errorf("the counts are %v", c)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	g, ask := open()
	g.SetFaults(gate.Faults{TooMany: 2, RetryAfter: 7, ServerErrors: 1})
	for n, want := range []int{429, 429, 500, 200} {
		answer := ask(right)
		if retry := answer.Header().Get("Retry-After"); answer.Code != want || answer.Code == 429 && retry != "7" {
			t.Errorf("answer %d is %d, Retry-After %q; want %d", n, answer.Code, retry, want)
		}
	}
	if f := g.Faults(); f.TooMany != 0 || f.ServerErrors != 0 || f.RetryAfter != 7 {
		t.Errorf("what is left of the faults: %+v", f)
	}
	g.SetFaults(gate.Faults{TooManySeconds: 3600, RetryAfter: 1})
	for range 5 {
		if answer := ask(right); answer.Code != 429 {
			t.Errorf("while all are refused the answer is %d", answer.Code)
		}
	}
	g.SetFaults(gate.Faults{ServerErrorRatio: 1})
	if answer := ask(right); answer.Code != 500 {
		t.Errorf("with all answers broken: %d", answer.Code)
	}
	g.SetFaults(gate.Faults{SlowMs: 50})
	began := time.Now()
	if answer := ask(right); answer.Code != 200 || time.Since(began) < 50*time.Millisecond {
		t.Errorf("a slow answer is %d after %s", answer.Code, time.Since(began))
	}
	if c := g.Counts(); c["too_many_requests"] != 7 || c["server_error"] != 2 || c["show"] != 2 {
		t.Errorf("the counts are %v", c)
	}
	g.ResetCounts()
	if c := g.Counts(); len(c) != 0 {
		t.Errorf("after a reset the counts are %v", c)
	}
}

func TestFaultsAreChecked(t *testing.T) {
	t.Parallel()
	for _, f := range []gate.Faults{{ServerErrorRatio: 2}, {ServerErrorRatio: -1}, {TooMany: -1}, {SlowMs: -1}, {WithholdCreates: -1}} {
		if f.Validate() == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
	if err := (gate.Faults{ServerErrorRatio: 1, TooMany: 3}).Validate(); err != nil {
		t.Error(err)
	}
}
