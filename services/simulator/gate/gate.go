// Package gate is the way into a simulated provider's API: it asks for the
// bearer key, refuses and breaks requests on purpose, and counts them. What the
// API does stands behind it.
package gate

import (
	"context"
	"crypto/subtle"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// withheldFor is how long a client waits at most for an answer that is withheld.
const withheldFor = 5 * time.Minute

// Gate admits requests. It is safe for concurrent use.
type Gate struct {
	key string

	mu           sync.Mutex
	random       *rand.Rand
	faults       Faults
	tooManyUntil time.Time
	counts       map[string]int
}

// New returns a gate for one bearer key.
func New(key string, seed uint64) *Gate {
	return &Gate{key: key, random: rand.New(rand.NewPCG(seed, 3)), counts: make(map[string]int)}
}

// Counts returns how many requests there were, by operation and by what went
// wrong.
func (g *Gate) Counts() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.counts)
}

// ResetCounts starts counting again.
func (g *Gate) ResetCounts() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.counts)
}

// Count counts one more of something.
func (g *Gate) Count(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[what]++
}

// Admit checks the key and applies the faults that concern every request.
func (g *Gate) Admit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, bearer := strings.CutPrefix(c.Request().Header.Get("Authorization"), "Bearer ")
		if !bearer || subtle.ConstantTimeCompare([]byte(key), []byte(g.key)) != 1 {
			g.Count("unauthorized")
			return Fail(c, http.StatusUnauthorized, "UNAUTHORIZED", "the bearer key is not valid")
		}
		what, retryAfter, slow := g.draw()
		if slow > 0 {
			pause(c.Request().Context(), slow)
		}
		switch what {
		case tooMany:
			return g.TurnAway(c, retryAfter, "not admitted now")
		case serverError:
			g.Count("server_error")
			return Fail(c, http.StatusInternalServerError, "INTERNAL_ERROR", "something broke (a fault)")
		}
		return next(c)
	}
}

// TurnAway answers 429, with how many seconds to wait.
func (g *Gate) TurnAway(c echo.Context, retryAfter int, message string) error {
	g.Count("too_many_requests")
	c.Response().Header().Set("Retry-After", strconv.Itoa(retryAfter))
	return Fail(c, http.StatusTooManyRequests, "TOO_MANY_REQUESTS", message)
}

// Withhold keeps the answer to a create that has succeeded, if a fault says so:
// then it does not return, and the connection is closed in the end.
func (g *Gate) Withhold(c echo.Context) {
	if g.withhold() {
		pause(c.Request().Context(), withheldFor)
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
}

// Fail answers an error in the form of the providers' APIs.
func Fail(c echo.Context, status int, code, message string) error {
	type detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	return c.JSON(status, map[string]detail{"error": {code, message}})
}

// PathID is the route's :id. Echo hands out the path as it was escaped, unless
// it was escaped in the usual way.
func PathID(c echo.Context) string {
	id := c.Param("id")
	if c.Request().URL.RawPath == "" {
		return id
	}
	if plain, err := url.PathUnescape(id); err == nil {
		return plain
	}
	return id
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
