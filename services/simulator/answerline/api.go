package answerline

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// Faults are what goes wrong with the API on purpose.
type Faults struct {
	// TooMany is how many requests are answered 429 from now on, with RetryAfter
	// seconds.
	TooMany    int `json:"tooMany"`
	RetryAfter int `json:"retryAfterSeconds"`
	// ServerErrors is how many requests are answered 500 from now on.
	ServerErrors int `json:"serverErrors"`
	// WithholdCreates is how many creates succeed without ever being answered.
	WithholdCreates int     `json:"withholdCreates"`
	FailRatio       float64 `json:"failRatio"`    // of tasks that fail
	RequeueRatio    float64 `json:"requeueRatio"` // of runs that fall back to QUEUED
}

// API serves the provider's API over tasks.
type API struct {
	tasks *Tasks
	key   string

	mu     sync.Mutex
	faults Faults
	counts map[string]int // requests by operation, and by fault
}

// NewAPI returns the API for one bearer key.
func NewAPI(tasks *Tasks, key string) *API {
	return &API{tasks: tasks, key: key, counts: make(map[string]int)}
}

// SetFaults replaces the faults.
func (a *API) SetFaults(f Faults) {
	a.mu.Lock()
	a.faults = f
	a.mu.Unlock()
	a.tasks.SetRatios(f.FailRatio, f.RequeueRatio)
}

// Counts returns how many requests there were, by operation and by fault.
func (a *API) Counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := make(map[string]int, len(a.counts))
	for name, n := range a.counts {
		counts[name] = n
	}
	return counts
}

// Register adds the API's routes.
func (a *API) Register(e *echo.Echo) {
	g := e.Group("/v1/async", a.admit)
	g.POST("/task", a.create)
	g.GET("/task/:id", a.show)
	g.GET("/status", a.status)
	g.DELETE("/queue", a.cancelQueued)
}

type apiError struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func fail(c echo.Context, status int, code, message string) error {
	var body apiError
	body.Error.Code, body.Error.Message = code, message
	return c.JSON(status, body)
}

func (a *API) count(name string) {
	a.mu.Lock()
	a.counts[name]++
	a.mu.Unlock()
}

// take uses up one of a number of faults.
func (a *API) take(left *int, name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if *left <= 0 {
		return false
	}
	*left--
	a.counts[name]++
	return true
}

// admit checks the key and applies the faults that concern every request.
func (a *API) admit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().Header.Get("Authorization") != "Bearer "+a.key {
			a.count("unauthorized")
			return fail(c, http.StatusUnauthorized, "UNAUTHORIZED", "the bearer key is not valid")
		}
		if a.take(&a.faults.TooMany, "too_many_requests") {
			a.mu.Lock()
			seconds := a.faults.RetryAfter
			a.mu.Unlock()
			c.Response().Header().Set("Retry-After", strconv.Itoa(seconds))
			return fail(c, http.StatusTooManyRequests, "TOO_MANY_REQUESTS", "not admitted now")
		}
		if a.take(&a.faults.ServerErrors, "server_error") {
			return fail(c, http.StatusInternalServerError, "INTERNAL", "something broke (a fault)")
		}
		return next(c)
	}
}

// withheldFor is how long a withheld answer keeps its client waiting at most.
const withheldFor = 5 * time.Minute

func (a *API) create(c echo.Context) error {
	a.count("create")
	var request Request
	if err := c.Bind(&request); err != nil || request.TaskType == "" {
		return fail(c, http.StatusBadRequest, "VALIDATION_ERROR", "taskType must be given")
	}
	task, err := a.tasks.Create(request)
	if errors.Is(err, ErrConflict) {
		return fail(c, http.StatusConflict, "RESOURCE_CONFLICT", err.Error())
	}
	if a.take(&a.faults.WithholdCreates, "withheld_create") {
		select {
		case <-c.Request().Context().Done():
		case <-time.After(withheldFor):
		}
		return nil
	}
	return c.JSON(http.StatusCreated, document{Task: &task, Credits: credits{3, 0}})
}

func (a *API) show(c echo.Context) error {
	a.count("show")
	body, ok := a.tasks.Show(c.Param("id"))
	if !ok {
		return fail(c, http.StatusNotFound, "NOT_FOUND", "the task is unknown or no longer kept")
	}
	return c.Blob(http.StatusOK, "application/json", body)
}

func (a *API) status(c echo.Context) error {
	a.count("status")
	queued, processing := a.tasks.Counts()
	return c.JSON(http.StatusOK, map[string]int{"queuedTasks": queued, "processingTasks": processing})
}

func (a *API) cancelQueued(c echo.Context) error {
	a.count("cancel_queued")
	return c.JSON(http.StatusOK, map[string]int{"removedTasks": a.tasks.CancelQueued()})
}
