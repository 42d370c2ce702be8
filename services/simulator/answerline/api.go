package answerline

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
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

const (
	maxRequest = 10 << 20 // bytes
	// withheldFor is how long a client waits at most for an answer that is
	// withheld.
	withheldFor = 5 * time.Minute
	// fullRetryAfter is what a create is told, in seconds, when too many tasks
	// have not ended.
	fullRetryAfter = 1
)

// API serves the provider's API over tasks.
type API struct {
	tasks *Tasks
	key   string

	mu           sync.Mutex
	random       *rand.Rand
	faults       Faults
	tooManyUntil time.Time
	counts       map[string]int // requests by operation, and by what went wrong
}

// NewAPI returns the API for one bearer key.
func NewAPI(tasks *Tasks, key string, seed uint64) *API {
	return &API{tasks: tasks, key: key, random: rand.New(rand.NewPCG(seed, 3)), counts: make(map[string]int)}
}

// Register adds the API's routes.
func (a *API) Register(e *echo.Echo) {
	g := e.Group("/v1/async", a.admit)
	g.POST("/task", a.create)
	g.GET("/task/:id", a.show)
	g.GET("/status", a.status)
	g.DELETE("/queue", a.cancelQueued)
}

// Counts returns how many requests there were, by operation and by what went
// wrong.
func (a *API) Counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.counts)
}

// ResetCounts starts counting again.
func (a *API) ResetCounts() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.counts)
}

func (a *API) count(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[name]++
}

// Fail answers an error in the API's own form.
func Fail(c echo.Context, status int, code, message string) error {
	type detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	return c.JSON(status, map[string]detail{"error": {code, message}})
}

// admit checks the key and applies the faults that concern every request.
func (a *API) admit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, bearer := strings.CutPrefix(c.Request().Header.Get("Authorization"), "Bearer ")
		if !bearer || subtle.ConstantTimeCompare([]byte(key), []byte(a.key)) != 1 {
			a.count("unauthorized")
			return Fail(c, http.StatusUnauthorized, "UNAUTHORIZED", "the bearer key is not valid")
		}
		what, retryAfter, slow := a.draw()
		if slow > 0 {
			pause(c.Request().Context(), slow)
		}
		switch what {
		case tooMany:
			a.count("too_many_requests")
			return refuse(c, retryAfter, "not admitted now")
		case serverError:
			a.count("server_error")
			return Fail(c, http.StatusInternalServerError, "INTERNAL_ERROR", "something broke (a fault)")
		}
		return next(c)
	}
}

func refuse(c echo.Context, retryAfter int, message string) error {
	c.Response().Header().Set("Retry-After", strconv.Itoa(retryAfter))
	return Fail(c, http.StatusTooManyRequests, "TOO_MANY_REQUESTS", message)
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

// created is what a create is answered.
type created struct {
	Task    Task `json:"task"`
	Credits struct {
		ToCharge int `json:"creditsToCharge"`
		Charged  int `json:"creditsCharged"`
	} `json:"credits"`
}

func (a *API) create(c echo.Context) error {
	a.count("create")
	request, message := readRequest(c.Request().Body)
	if message != "" {
		return Fail(c, http.StatusBadRequest, "VALIDATION_ERROR", message)
	}
	task, err := a.tasks.Create(request)
	switch {
	case errors.Is(err, ErrConflict):
		a.count("conflict")
		return Fail(c, http.StatusConflict, "RESOURCE_CONFLICT", err.Error())
	case errors.Is(err, ErrFull):
		a.count("too_many_requests")
		return refuse(c, fullRetryAfter, err.Error())
	}
	if a.withhold() {
		pause(c.Request().Context(), withheldFor)
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
	answer := created{Task: task}
	answer.Credits.ToCharge = creditsToCharge
	return c.JSON(http.StatusCreated, answer)
}

// readRequest reads what a task is created with; the message says what is wrong
// with it. What the provider would make of prompts and payloads is not looked at.
func readRequest(body io.Reader) (r Request, message string) {
	data, err := io.ReadAll(io.LimitReader(body, maxRequest))
	if err != nil {
		return r, "the request was cut short"
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, "the request is not JSON of the right form: " + err.Error()
	}
	switch {
	case r.TaskType == "":
		message = "taskType must be given"
	case r.IdempotencyKey != nil && *r.IdempotencyKey == "":
		message = "idempotencyKey must not be empty"
	}
	return r, message
}

func (a *API) show(c echo.Context) error {
	a.count("show")
	body, err := a.tasks.Show(PathID(c))
	if err != nil {
		a.count("not_found")
		return Fail(c, http.StatusNotFound, "NOT_FOUND", err.Error())
	}
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, body)
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

func (a *API) status(c echo.Context) error {
	a.count("status")
	counts := a.tasks.Counts()
	return c.JSON(http.StatusOK, map[string]int{"queuedTasks": counts.Queued, "processingTasks": counts.Processing})
}

func (a *API) cancelQueued(c echo.Context) error {
	a.count("cancel_queued")
	return c.JSON(http.StatusOK, map[string]int{"removedTasks": a.tasks.CancelQueued()})
}
