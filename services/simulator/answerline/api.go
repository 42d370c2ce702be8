package answerline

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/gate"
)

const (
	maxRequest = 10 << 20 // bytes
	// fullRetryAfter is what a create is told, in seconds, when too many tasks
	// have not ended.
	fullRetryAfter = 1
)

// API serves the provider's API over tasks.
type API struct {
	*gate.Gate
	tasks *Tasks
}

// NewAPI returns the API for one bearer key.
func NewAPI(tasks *Tasks, key string, seed uint64) *API {
	return &API{Gate: gate.New(key, seed), tasks: tasks}
}

// Register adds the API's routes.
func (a *API) Register(e *echo.Echo) {
	g := e.Group("/v1/async", a.Admit)
	g.POST("/task", a.create)
	g.GET("/task/:id", a.show)
	g.GET("/status", a.status)
	g.DELETE("/queue", a.cancelQueued)
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
	a.Count("create")
	request, message := readRequest(c.Request().Body)
	if message != "" {
		return gate.Fail(c, http.StatusBadRequest, "VALIDATION_ERROR", message)
	}
	task, err := a.tasks.Create(request)
	switch {
	case errors.Is(err, ErrConflict):
		a.Count("conflict")
		return gate.Fail(c, http.StatusConflict, "RESOURCE_CONFLICT", err.Error())
	case errors.Is(err, ErrFull):
		return a.TurnAway(c, fullRetryAfter, err.Error())
	}
	a.Withhold(c)
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
	a.Count("show")
	body, err := a.tasks.Show(gate.PathID(c))
	if err != nil {
		a.Count("not_found")
		return gate.Fail(c, http.StatusNotFound, "NOT_FOUND", err.Error())
	}
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, body)
}

func (a *API) status(c echo.Context) error {
	a.Count("status")
	counts := a.tasks.Counts()
	return c.JSON(http.StatusOK, map[string]int{"queuedTasks": counts.Queued, "processingTasks": counts.Processing})
}

func (a *API) cancelQueued(c echo.Context) error {
	a.Count("cancel_queued")
	return c.JSON(http.StatusOK, map[string]int{"removedTasks": a.tasks.CancelQueued()})
}
