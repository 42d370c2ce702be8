package harness

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// Post sends a delivery signed with secrets, as it is now, and returns the
// answer's status.
func Post(t testing.TB, addr, path string, body []byte, secrets ...string) int {
	t.Helper()
	response, err := Send(addr, path, body, map[string]string{"Webhook-Signature": delivery.Sign(secrets, time.Now(), body)})
	if err != nil {
		t.Fatalf("POST %s: %v", path, err)
	}
	return response
}

// client follows no redirects, as senders do not.
var client = &http.Client{
	Timeout:       15 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 0},
}

// Send posts bytes with headers and returns the answer's status.
func Send(addr, path string, body []byte, headers map[string]string) (int, error) {
	request, err := http.NewRequest(http.MethodPost, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, nil
}

// Task is the body of a delivery about a task.
func Task(id, key, status, createdAt string) []byte {
	return fmt.Appendf(nil, `{"task":{"id":%q,"taskType":"answer","status":%q,"priority":0,"createdAt":%q,"idempotencyKey":%q},`+
		`"credits":{"creditsToCharge":3,"creditsCharged":3},"response":{"result":{"text":%q}}}`, id, status, createdAt, key, id)
}

// Happening is a status event as Koltrix sends it.
type Happening struct {
	Message string
	Event   string // without "message."
	At      int64  // seconds since 1970
	To      string // a@example.org when empty
}

// Body is the event's delivery.
func (h Happening) Body() []byte {
	return fmt.Appendf(nil, `{"event":"message.%s","timestamp":%d,"message_id":%q,"to":%q,"from":"shop@example.org","subject":"Hello"}`,
		h.Event, h.At, h.Message, cmp.Or(h.To, "a@example.org"))
}

// PostKoltrix sends a body as Koltrix signs it, and returns the answer's status.
func PostKoltrix(addr, path string, body []byte, secret string) (int, error) {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return Send(addr, path, body, map[string]string{"X-Koltrix-Signature": "sha256=" + hex.EncodeToString(mac.Sum(nil))})
}

// Simulator drives a simulator over its control API.
type Simulator struct {
	T    testing.TB
	Addr string
}

// Call makes a request and decodes its answer into out, unless that is nil.
func (s Simulator) Call(method, path string, in, out any) int {
	s.T.Helper()
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			s.T.Fatal(err)
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequest(method, "http://"+s.Addr+path, body)
	if err != nil {
		s.T.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer sim-key")
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Timeout: 2 * time.Minute}).Do(request)
	if err != nil {
		s.T.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(response.Body)
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			s.T.Fatalf("%s %s answered %s %q: %v", method, path, response.Status, data, err)
		}
	}
	return response.StatusCode
}

// Burst finishes so many tasks and returns their ids.
func (s Simulator) Burst(count int, perSecond float64) []string {
	s.T.Helper()
	var out struct {
		TaskIDs []string `json:"taskIds"`
	}
	s.Call(http.MethodPost, "/control/burst", map[string]any{"count": count, "perSecond": perSecond, "keyPrefix": fmt.Sprintf("burst-%d", time.Now().UnixNano())}, &out)
	if len(out.TaskIDs) != count {
		s.T.Fatalf("the burst made %d tasks, want %d", len(out.TaskIDs), count)
	}
	return out.TaskIDs
}

// Report is what the simulator says of its deliveries.
type Report struct {
	Deliveries delivery.Report `json:"deliveries"`
	API        map[string]int  `json:"api"`
}

// Report waits until nothing is pending and sums up.
func (s Simulator) Report(waitIdle time.Duration) Report {
	s.T.Helper()
	var r Report
	path := "/control/report?detail=1"
	if waitIdle > 0 {
		path += "&waitIdle=" + waitIdle.String()
	}
	if status := s.Call(http.MethodGet, path, nil, &r); status != http.StatusOK {
		s.T.Fatalf("the simulator's report: %d", status)
	}
	return r
}

// Simulator starts a simulator whose Answerline delivers to the source answers at
// an address, and whose Koltrix to the source mail.
func (s *System) Simulator(target string, env ...string) (Simulator, *Service) {
	s.T.Helper()
	service := s.StartService("simulator", append([]string{
		"SIMULATOR_WEBHOOK_URL=http://" + target + "/hooks/answers", "SIMULATOR_FAIL_RATIO=0",
		"SIMULATOR_KOLTRIX_WEBHOOK_URL=http://" + target + "/hooks/mail",
	}, env...)...)
	return Simulator{T: s.T, Addr: service.Addr}, service
}
