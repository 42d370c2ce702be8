// Package httpapi is a client for the HTTP API of a provider, whichever it is: a
// bearer key, a time-out, a bounded answer, no redirects, and errors that say
// what a retry could do. It retries nothing by itself, and knows no provider's
// resources.
package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Client calls an API. Its fields are set before its first use; then it is safe
// for concurrent use.
type Client struct {
	BaseURL string // such as https://api.answerline.dev, without a trailing slash
	Key     string // the bearer key
	// Timeout bounds each call from connecting to the last byte of the answer;
	// 30 s when zero.
	Timeout time.Duration
	// MaxBody bounds an answer, in bytes; 32 MiB when zero. A longer one is a
	// TooLargeError.
	MaxBody int64
	// Transport is used for calls; http.DefaultTransport when nil.
	Transport http.RoundTripper
}

const (
	defaultTimeout = 30 * time.Second
	defaultMaxBody = 32 << 20
)

// Send makes one call, with a JSON body or, when it is nil, none, and returns the
// bytes of a 2xx answer. Any other answer is an *Error.
func (c *Client) Send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	timeout, most := c.Timeout, c.MaxBody
	if timeout == 0 {
		timeout = defaultTimeout
	}
	if most == 0 {
		most = defaultMaxBody
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s: %w", timeout, context.DeadlineExceeded))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.Key)
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Transport: c.Transport, CheckRedirect: dontFollow}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, &url.Error{Op: method, URL: request.URL.String(), Err: context.Cause(ctx)}
	case err != nil:
		return nil, &url.Error{Op: method, URL: request.URL.String(), Err: err}
	case response.StatusCode < 200 || response.StatusCode > 299:
		return nil, readError(response, data)
	case int64(len(data)) > most:
		return nil, &TooLargeError{Limit: most}
	}
	return data, nil
}

// dontFollow makes a redirect an Error: an API does not move, and the key is
// not for wherever it may lead.
func dontFollow(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
