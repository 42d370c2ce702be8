package delivery

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxAnswer bounds what is read of a receiver's answer, in bytes.
const maxAnswer = 64 << 10

// Answer is what a receiver answered to one request.
type Answer struct {
	Code   int     `json:"status"` // 0 when there was none
	Err    string  `json:"error,omitempty"`
	TookMs float64 `json:"tookMs"`

	hopeless bool // no retry can help
}

func (a Answer) delivered() bool { return a.Code >= 200 && a.Code < 300 }

// request is one request to be sent.
type request struct {
	target  string
	secrets []string
	id      string
	body    []byte
	mishaps

	signedAt time.Time          // now when zero
	headers  map[string]*string // replace the contract's; nil takes one away
	full     *FullAnswer        // filled in when given
}

// send makes one request, signed now.
func (e *Engine) send(ctx context.Context, r request) Answer {
	if err := checkTarget(r.target, e.cfg.PrivateTargets); err != nil {
		return Answer{Err: err.Error(), hopeless: true}
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Contract.Timeout)
	defer cancel()
	began := time.Now()
	request, err := e.newRequest(ctx, r)
	if err != nil {
		return Answer{Err: err.Error(), hopeless: true}
	}
	if r.abort {
		return e.unanswered(ctx, e.abandon(request), 0)
	}
	response, err := e.client.Do(request)
	took := float64(time.Since(began).Microseconds()) / 1000
	if err != nil {
		return e.unanswered(ctx, err, took)
	}
	defer response.Body.Close()
	// The rest is read so that the connection can be kept.
	read, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return e.unanswered(ctx, err, took)
	case r.full != nil:
		r.full.Header, r.full.Body = response.Header, string(read)
	}
	answer := Answer{Code: response.StatusCode, TookMs: took}
	if !answer.delivered() {
		answer.Err = "answered " + response.Status
	}
	return answer
}

// newRequest makes the HTTP request, signed now.
func (e *Engine) newRequest(ctx context.Context, r request) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.target, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	now, signed := r.signedAt, r.body
	if now.IsZero() {
		now = time.Now().Add(r.skew)
	}
	if r.badSign {
		signed = append(bytes.Clone(r.body), "forged"...)
	}
	request.Header.Set("Content-Type", "application/json")
	e.cfg.Contract.Headers(request.Header, r.id, now, r.secrets, signed)
	for name, value := range r.headers {
		if value == nil {
			request.Header.Del(name)
			continue
		}
		request.Header.Set(name, *value)
	}
	return request, nil
}

// errClosed says that an attempt was cut short.
var errClosed = errors.New("the connection was closed before the answer")

// abandon sends all of a request and closes the connection without waiting for
// an answer. It returns errClosed when it has. The usual client cannot do it: it
// says that a request is written before it is sent.
func (e *Engine) abandon(request *http.Request) error {
	target, port := request.URL, request.URL.Port()
	if port == "" {
		port = target.Scheme // net knows the ports of http and https
	}
	conn, err := e.dial(request.Context(), "tcp", net.JoinHostPort(target.Hostname(), port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if target.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: target.Hostname()})
	}
	if deadline, ok := request.Context().Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if err := request.Write(conn); err != nil {
		return err
	}
	return errClosed
}

// unanswered says in the log's words why there was no answer.
func (e *Engine) unanswered(ctx context.Context, err error, took float64) Answer {
	a := Answer{TookMs: took}
	var never errUndeliverable
	var wrapped *url.Error
	switch {
	case errors.As(err, &never):
		a.Err, a.hopeless = never.Error(), true
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.Err = fmt.Sprintf("no answer within %s", e.cfg.Contract.Timeout)
	case ctx.Err() != nil:
		a.Err = errClosed.Error()
	case errors.As(err, &wrapped): // its Error would repeat the URL
		a.Err = wrapped.Err.Error()
	default:
		a.Err = err.Error()
	}
	return a
}

// Sample sends the dashboard's test delivery: one attempt, outside the log.
func (e *Engine) Sample(ctx context.Context) FullAnswer {
	return e.Send(ctx, Raw{ID: "wh_test", Body: e.cfg.Contract.Sample})
}

// Raw is one request of the caller's making, outside the log and its faults.
type Raw struct {
	ID   string // of the delivery
	Body []byte
	// Headers replace what the contract sets; nil takes one away.
	Headers map[string]*string
	// URL, Secrets and SignedAt are the engine's own, and now, when not given.
	URL      string
	Secrets  []string
	SignedAt time.Time
}

// FullAnswer is all of what a receiver answered.
type FullAnswer struct {
	Answer
	Header http.Header `json:"headers,omitempty"`
	Body   string      `json:"body,omitempty"`
}

// Send makes one request outside the log.
func (e *Engine) Send(ctx context.Context, raw Raw) FullAnswer {
	e.mu.Lock()
	r := request{target: e.url, secrets: e.secrets, id: raw.ID, body: raw.Body, signedAt: raw.SignedAt, headers: raw.Headers}
	e.mu.Unlock()
	if raw.URL != "" {
		r.target = raw.URL
	}
	if raw.Secrets != nil {
		r.secrets = raw.Secrets
	}
	var full FullAnswer
	r.full = &full
	full.Answer = e.send(ctx, r)
	return full
}
