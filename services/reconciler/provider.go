package reconciler

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"

	"github.com/catchwater/catchwater/pkg/httpapi"
	"github.com/catchwater/catchwater/pkg/source"
)

// provider is a source whose provider can be asked.
type provider struct {
	source    *source.Source
	subject   subject // what it is asked about
	transport http.RoundTripper
	log       *slog.Logger

	mu      sync.Mutex
	key     string // the API key as it was last read
	another bool   // it has changed, and the pause of the former one has not been ended
}

// openProviders returns those of the sources that can be asked. A key that
// cannot be read is an error that names its place.
func openProviders(sources *source.Config, workers int, log *slog.Logger) ([]*provider, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = workers
	var all []*provider
	for _, s := range sources.Sources {
		if s.Reconcile == nil {
			continue
		}
		key, err := source.ReadSecret(s.Reconcile.Token, os.Getenv)
		if err != nil {
			return nil, fmt.Errorf("source %q: reconcile.token: %w", s.Name, err)
		}
		all = append(all, &provider{
			source: s, subject: subjectOf(s), transport: transport, log: log.With(slog.String("source", s.Name)), key: key,
		})
	}
	return all, nil
}

// client returns a client with the API key as it stands now: a key that the
// provider refuses can be replaced in its file while the service runs.
func (p *provider) client() *httpapi.Client {
	return &httpapi.Client{
		BaseURL: p.source.Reconcile.BaseURL, Key: p.readKey(), Timeout: p.source.Reconcile.Timeout,
		MaxBody: p.source.MaxBody, Transport: p.transport,
	}
}

// readKey returns the API key as it stands at its place, or else the former one.
func (p *provider) readKey() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	key, err := source.ReadSecret(p.source.Reconcile.Token, os.Getenv)
	switch {
	case err != nil:
		p.log.Warn("the API key cannot be read; the former one is used", p.place(), slog.Any("error", err))
	case key != p.key:
		p.log.Info("the API key has changed", p.place())
		p.key, p.another = key, true
	}
	return p.key
}

// lastKey returns the API key as it was last read.
func (p *provider) lastKey() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key
}

// renewed reads the API key, and says whether it has changed since heeded.
func (p *provider) renewed() bool {
	p.readKey()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.another
}

func (p *provider) heeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.another = false
}

// place says where the API key stands, for the log.
func (p *provider) place() slog.Attr {
	return slog.String("place", p.source.Reconcile.Token.String())
}
