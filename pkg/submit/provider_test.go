package submit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/catchwater/catchwater/pkg/answerline"
)

// provider is a small stand-in for the API's create: one task a key.
type provider struct {
	*httptest.Server

	mu       sync.Mutex
	ids      map[string]string // by idempotency key
	creates  int
	withhold int      // creates that succeed without being answered
	answers  []string // what is answered first, without creating: "429 Retry-After"
}

func newProvider() *provider {
	p := &provider{ids: make(map[string]string)}
	p.Server = httptest.NewServer(http.HandlerFunc(p.create))
	return p
}

func (p *provider) client() *answerline.Client {
	return &answerline.Client{BaseURL: p.URL, Key: "key", Timeout: 300 * time.Millisecond}
}

func (p *provider) create(w http.ResponseWriter, r *http.Request) {
	var request answerline.Create
	_ = json.NewDecoder(r.Body).Decode(&request)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.creates++
	if len(p.answers) > 0 {
		var status int
		var retryAfter string
		_, _ = fmt.Sscan(p.answers[0], &status, &retryAfter)
		p.answers = p.answers[1:]
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"code":"CODE_%d","message":"as told"}}`, status)
		return
	}
	if p.ids[request.IdempotencyKey] != "" {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error":{"code":"RESOURCE_CONFLICT","message":"exists"}}`)
		return
	}
	id := fmt.Sprintf("task_%d", len(p.ids)+1)
	p.ids[request.IdempotencyKey] = id
	if p.withhold > 0 {
		p.withhold--
		p.mu.Unlock()
		<-r.Context().Done()
		p.mu.Lock()
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"task":{"id":%q,"status":"QUEUED"}}`, id)
}
