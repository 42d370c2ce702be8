package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/answerline"
	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// control is the API that turns faults on, makes things happen, and says what
// has happened.
type control struct{ *provider }

func (s *control) register(e *echo.Echo) {
	g := e.Group("/control")
	g.GET("/faults", s.showFaults)
	g.PUT("/faults", s.setFaults)
	g.PUT("/webhook", s.setWebhook)
	g.PUT("/secrets", s.setSecrets)
	g.POST("/pause", s.pause(true))
	g.POST("/resume", s.pause(false))
	g.POST("/reset", s.resetAll)

	g.POST("/burst", s.burst)
	g.GET("/bursts/:id", s.showBurst)
	g.POST("/tasks", s.makeTask)
	g.POST("/tasks/:id/finish", s.finishTask)
	g.POST("/tasks/:id/move", s.moveTask)
	g.POST("/tasks/:id/deliver", s.deliverTask)

	g.GET("/deliveries", s.deliveries)
	g.POST("/deliveries/:id/redeliver", s.redeliver)
	g.POST("/test-delivery", s.testDelivery)
	g.POST("/raw-delivery", s.rawDelivery)
	g.GET("/report", s.report)
}

// answerError writes every error in the form of the provider's API.
func answerError(err error, c echo.Context) {
	status, message := http.StatusInternalServerError, err.Error()
	var he *echo.HTTPError
	if errors.As(err, &he) {
		status, message = he.Code, fmt.Sprint(he.Message)
	}
	if c.Response().Committed {
		return
	}
	code := strings.ToUpper(strings.ReplaceAll(http.StatusText(status), " ", "_"))
	_ = answerline.Fail(c, status, code, message)
}

// maxControl bounds a control request's body, in bytes.
const maxControl = 256 << 20

// read decodes a JSON body strictly; an empty one is {}.
func read(c echo.Context, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(c.Response(), c.Request().Body, maxControl))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil && decoder.More() {
		err = errors.New("there is more after its end")
	}
	if err != nil {
		return invalid("read the request's JSON: %v", err)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return echo.NewHTTPError(http.StatusBadRequest, fmt.Sprintf(format, args...))
}

// refused translates what the provider's parts refuse.
func refused(err error) error {
	for _, known := range []struct {
		err    error
		status int
	}{
		{answerline.ErrUnknown, http.StatusNotFound}, {answerline.ErrExists, http.StatusConflict},
		{answerline.ErrFinal, http.StatusConflict}, {answerline.ErrNotFinal, http.StatusConflict},
		{answerline.ErrStatus, http.StatusBadRequest},
		{delivery.ErrUnknown, http.StatusNotFound}, {delivery.ErrPending, http.StatusConflict},
		{delivery.ErrGone, http.StatusGone}, {delivery.ErrTooOften, http.StatusTooManyRequests},
	} {
		if errors.Is(err, known.err) {
			return echo.NewHTTPError(known.status, err.Error())
		}
	}
	return err
}

// faults are all of them; they are replaced together.
type faults struct {
	Delivery delivery.Faults   `json:"delivery"`
	API      answerline.Faults `json:"api"`
}

func (s *control) showFaults(c echo.Context) error {
	return c.JSON(http.StatusOK, faults{s.engine.Faults(), s.api.Faults()})
}

// setFaults replaces all faults; {} turns them off.
func (s *control) setFaults(c echo.Context) error {
	var f faults
	if err := read(c, &f); err != nil {
		return err
	}
	if err := errors.Join(f.Delivery.Validate(), f.API.Validate()); err != nil {
		return invalid("%v", err)
	}
	s.engine.SetFaults(f.Delivery)
	s.api.SetFaults(f.API)
	return c.NoContent(http.StatusNoContent)
}

func (s *control) setWebhook(c echo.Context) error {
	var w struct {
		URL string `json:"url"`
	}
	if err := read(c, &w); err != nil {
		return err
	}
	s.engine.SetURL(w.URL)
	return c.NoContent(http.StatusNoContent)
}

// setSecrets replaces the valid secrets: with the old and the new one in the
// list both are, with the new one alone the old one is retired.
func (s *control) setSecrets(c echo.Context) error {
	var r struct {
		Secrets []string `json:"secrets"`
	}
	if err := read(c, &r); err != nil {
		return err
	}
	if len(r.Secrets) == 0 || slices.Contains(r.Secrets, "") {
		return invalid("secrets: give at least one, and none that is empty")
	}
	s.engine.SetSecrets(r.Secrets)
	return c.NoContent(http.StatusNoContent)
}

func (s *control) pause(paused bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		s.engine.Pause(paused)
		return c.NoContent(http.StatusNoContent)
	}
}

func (s *control) resetAll(c echo.Context) error {
	s.reset()
	return c.NoContent(http.StatusNoContent)
}

// burst finishes made-up tasks, so many a second, and returns when all of their
// deliveries are queued, unless it is told not to wait.
func (s *control) burst(c echo.Context) error {
	var ask burstRequest
	if err := read(c, &ask); err != nil {
		return err
	}
	if message := ask.validate(); message != "" {
		return invalid("%s", message)
	}
	b := s.bursts.start(ask)
	if ask.NoWait {
		return c.JSON(http.StatusAccepted, b.view())
	}
	select {
	case <-b.done:
	case <-c.Request().Context().Done():
	}
	return c.JSON(http.StatusOK, b.view())
}

func (s *control) showBurst(c echo.Context) error {
	b := s.bursts.find(c.Param("id"))
	if b == nil {
		return echo.NewHTTPError(http.StatusNotFound, "there is no such burst, or it is no longer remembered")
	}
	return c.JSON(http.StatusOK, b.view())
}

// Report is what a simulator says of what it has done.
type Report struct {
	// Idle says that no delivery is pending and no burst is running.
	Idle       bool              `json:"idle"`
	Deliveries delivery.Report   `json:"deliveries"`
	Tasks      answerline.Counts `json:"tasks"`
	API        map[string]int    `json:"api"` // requests by operation, and by what went wrong
}

// report sums everything up: with ids=1 by task id, with detail=1 by delivery.
// With waitIdle it first waits until nothing is pending; when that does not come
// in time, the report is answered with 504.
func (s *control) report(c echo.Context) error {
	status := http.StatusOK
	if text := c.QueryParam("waitIdle"); text != "" {
		wait, err := time.ParseDuration(text)
		if err != nil {
			return invalid("waitIdle %q is not a duration such as 30s", text)
		}
		if !s.awaitIdle(c, wait) {
			status = http.StatusGatewayTimeout
		}
	}
	detail := delivery.Totals
	switch {
	case asked(c, "detail"):
		detail = delivery.Log
	case asked(c, "ids"):
		detail = delivery.IDs
	}
	return c.JSON(status, Report{Idle: s.idle(), Deliveries: s.engine.Report(detail), Tasks: s.tasks.Counts(), API: s.api.Counts()})
}

func asked(c echo.Context, name string) bool {
	yes, _ := strconv.ParseBool(c.QueryParam(name))
	return yes
}

func (s *control) idle() bool { return s.bursts.idle() && s.engine.Idle() }

// awaitIdle reports whether nothing was pending before the wait was over or the
// client gone.
func (s *control) awaitIdle(c echo.Context, wait time.Duration) bool {
	const look = 5 * time.Millisecond
	deadline, ticker := time.NewTimer(wait), time.NewTicker(look)
	defer deadline.Stop()
	defer ticker.Stop()
	for !s.idle() {
		select {
		case <-c.Request().Context().Done():
			return false
		case <-deadline.C:
			return false
		case <-ticker.C:
		}
	}
	return true
}
