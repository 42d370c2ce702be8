package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/httpapi"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/tracing"
)

// httpTarget posts to an endpoint, signed as Standard Webhooks says.
type httpTarget struct {
	settings *source.HTTPEffect
	keyring  *source.Keyring
	options  Options
}

func openHTTP(s *source.Source, e *source.Effect, o Options) (Target, error) {
	keyring, err := source.OpenEffectKeyring(s, e, o.Getenv, o.Log)
	if err != nil {
		return nil, err
	}
	t := &httpTarget{settings: e.HTTP, keyring: keyring, options: o}
	if err := t.setHeaders(http.Header{}); err != nil {
		return nil, placeError(s, e, "http.headers", err)
	}
	return t, nil
}

func (t *httpTarget) Watch(ctx context.Context) { t.keyring.Watch(ctx, t.options.SecretInterval) }

// setHeaders sets those that the settings give, secrets as they stand now.
func (t *httpTarget) setHeaders(header http.Header) error {
	for _, h := range t.settings.Headers {
		value := h.Value
		if h.Place != (source.SecretRef{}) {
			var err error
			if value, err = source.ReadSecret(h.Place, t.options.Getenv); err != nil {
				return fmt.Errorf("%s: %w", h.Name, err)
			}
		}
		header.Set(h.Name, value)
	}
	return nil
}

func (t *httpTarget) Perform(ctx context.Context, call *effects.Call) error {
	body, header, err := content(call, t.settings.Body)
	if err != nil {
		return err
	}
	if err := t.setHeaders(header); err != nil {
		return err
	}
	header.Set("Webhook-Id", call.Key())
	if err := t.keyring.Sign(header, body, time.Now()); err != nil {
		return err
	}
	return post(ctx, t.options.Transport, t.settings.URL, header, body, call)
}

// post makes one call, of which only 2xx is a success.
func post(ctx context.Context, transport http.RoundTripper, address string, header http.Header, body []byte, call *effects.Call) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL cannot be called") // without the URL, which may be a secret
	}
	// A request with an idempotency key would be sent again by the transport itself
	// when a kept connection breaks. What may have been performed is repeated by one
	// that counts, and nobody else.
	request.GetBody = nil
	request.Header = header
	request.Header.Set("Idempotency-Key", call.Key())
	request.Header.Set("User-Agent", "Catchwater")
	if traceparent := tracing.Traceparent(ctx); traceparent != "" {
		request.Header.Set(tracing.Header, traceparent)
	}
	client := http.Client{Transport: transport, CheckRedirect: dontFollow}
	response, err := client.Do(request)
	if err != nil {
		return withoutURL(ctx, err)
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // enough to use the connection again
	if response.StatusCode >= 200 && response.StatusCode <= 299 {
		return nil
	}
	return answered(response, said)
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 10

// dontFollow makes a redirect an Error: what is signed is for the endpoint that
// was named.
func dontFollow(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// withoutURL takes the URL out of an error that no answer came.
func withoutURL(ctx context.Context, err error) error {
	var urlError *url.Error
	if errors.As(err, &urlError) {
		err = urlError.Err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("no answer: %w", err)
}

// answered makes an Error of an answer other than 2xx.
func answered(response *http.Response, said []byte) *Error {
	e := &Error{Text: "the answer is " + response.Status, RetryAfter: httpapi.RetryAfter(response.Header, time.Now())}
	if line := httpapi.OneLine(strings.TrimSpace(string(said))); line != "" {
		e.Text += ": " + line
	}
	switch status := response.StatusCode; {
	case status < 400:
		e.Refused = true
		e.Text += " (redirects are not followed: give the URL where they lead)"
	case status < 500:
		e.Refused = status != http.StatusRequestTimeout && status != http.StatusConflict && status != http.StatusTooEarly &&
			status != http.StatusTooManyRequests
	}
	return e
}
