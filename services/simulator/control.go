package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/answerline"
	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// control is the API that turns faults on and says what happened.
type control struct {
	ctx    context.Context // ends bursts with the service
	tasks  *answerline.Tasks
	api    *answerline.API
	engine *delivery.Engine
}

func (s *control) register(e *echo.Echo) {
	g := e.Group("/control")
	g.PUT("/faults", s.faults)
	g.POST("/burst", s.burst)
	g.POST("/tasks", s.makeTask)
	g.POST("/tasks/:id/finish", s.finishTask)
	g.GET("/deliveries", s.deliveries)
	g.POST("/deliveries/:id/redeliver", s.redeliver)
	g.POST("/test-delivery", s.testDelivery)
	g.POST("/raw-delivery", s.rawDelivery)
	g.PUT("/webhook", s.webhook)
	g.PUT("/secrets", s.secrets)
	g.POST("/pause", func(c echo.Context) error { s.engine.Pause(true); return c.NoContent(http.StatusNoContent) })
	g.POST("/resume", func(c echo.Context) error { s.engine.Pause(false); return c.NoContent(http.StatusNoContent) })
	g.GET("/report", s.report)
}

// read decodes a JSON body strictly.
func read(c echo.Context, into any) error {
	decoder := json.NewDecoder(c.Request().Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, fmt.Sprintf("read the request's JSON: %v", err))
	}
	return nil
}

// faults replaces all faults; {} turns them off.
func (s *control) faults(c echo.Context) error {
	var f struct {
		Delivery delivery.Faults   `json:"delivery"`
		API      answerline.Faults `json:"api"`
	}
	if err := read(c, &f); err != nil {
		return err
	}
	s.engine.SetFaults(f.Delivery)
	s.api.SetFaults(f.API)
	return c.NoContent(http.StatusNoContent)
}

// burst finishes made-up tasks, so many a second, and returns when all are in
// the delivery queue.
func (s *control) burst(c echo.Context) error {
	var b struct {
		Count     int     `json:"count"`
		PerSecond float64 `json:"perSecond"` // 0: all at once
		KeyPrefix string  `json:"keyPrefix"` // idempotency keys are <prefix>-<n>; none without it
		NoWait    bool    `json:"noWait"`
	}
	if err := read(c, &b); err != nil {
		return err
	}
	run := func() []string {
		ids := make([]string, 0, b.Count)
		began := time.Now()
		for n := range b.Count {
			if b.PerSecond > 0 {
				due := began.Add(time.Duration(float64(n) / b.PerSecond * float64(time.Second)))
				select {
				case <-s.ctx.Done():
					return ids
				case <-time.After(time.Until(due)):
				}
			}
			exact := answerline.Exact{}
			if b.KeyPrefix != "" {
				key := fmt.Sprintf("%s-%d", b.KeyPrefix, n)
				exact.IdempotencyKey = &key
			}
			ids = append(ids, s.tasks.Make(exact).ID)
		}
		return ids
	}
	if b.NoWait {
		go run()
		return c.NoContent(http.StatusAccepted)
	}
	return c.JSON(http.StatusOK, map[string][]string{"taskIds": run()})
}

func (s *control) makeTask(c echo.Context) error {
	var exact answerline.Exact
	if err := read(c, &exact); err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, s.tasks.Make(exact))
}

func (s *control) finishTask(c echo.Context) error {
	var f struct {
		Status   string          `json:"status"`
		Response json.RawMessage `json:"response"`
	}
	if err := read(c, &f); err != nil {
		return err
	}
	if f.Status == "" {
		f.Status = answerline.Completed
	}
	if !s.tasks.Finish(c.Param("id"), f.Status, f.Response) {
		return echo.NewHTTPError(http.StatusNotFound, "there is no such task, or it has ended")
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *control) deliveries(c echo.Context) error {
	const most = 10_000
	return c.JSON(http.StatusOK, s.engine.List(delivery.State(c.QueryParam("state")), most))
}

func (s *control) redeliver(c echo.Context) error {
	switch err := s.engine.Redeliver(c.Param("id")); {
	case errors.Is(err, delivery.ErrUnknown):
		return echo.NewHTTPError(http.StatusNotFound, err.Error())
	case errors.Is(err, delivery.ErrPending):
		return echo.NewHTTPError(http.StatusConflict, err.Error())
	case errors.Is(err, delivery.ErrTooOften):
		return echo.NewHTTPError(http.StatusTooManyRequests, err.Error())
	}
	return c.NoContent(http.StatusAccepted)
}

// testDelivery sends what the dashboard's button sends.
func (s *control) testDelivery(c echo.Context) error {
	body := []byte(`{"test":true,"task":{"id":"task_sample","taskType":"answer","status":"COMPLETED","priority":0,` +
		`"createdAt":"2026-01-01T00:00:00Z","idempotencyKey":null},"credits":{"creditsToCharge":0,"creditsCharged":0},` +
		`"response":{"result":{"text":"a sample"}}}`)
	return c.JSON(http.StatusOK, s.engine.Send(c.Request().Context(), "wh_test", body, nil))
}

// rawDelivery signs and sends exactly the bytes given, once, outside the log.
func (s *control) rawDelivery(c echo.Context) error {
	var r struct {
		Body    []byte            `json:"body"` // base64
		Text    string            `json:"text"` // or as it stands
		Headers map[string]string `json:"headers"`
	}
	if err := read(c, &r); err != nil {
		return err
	}
	if r.Body == nil {
		r.Body = []byte(r.Text)
	}
	return c.JSON(http.StatusOK, s.engine.Send(c.Request().Context(), "wh_raw", r.Body, r.Headers))
}

func (s *control) webhook(c echo.Context) error {
	var w struct {
		URL string `json:"url"`
	}
	if err := read(c, &w); err != nil {
		return err
	}
	s.engine.Set(&w.URL, nil)
	return c.NoContent(http.StatusNoContent)
}

func (s *control) secrets(c echo.Context) error {
	var r struct {
		Secrets []string `json:"secrets"`
	}
	if err := read(c, &r); err != nil {
		return err
	}
	if len(r.Secrets) == 0 {
		return echo.NewHTTPError(http.StatusBadRequest, "secrets: give at least one")
	}
	s.engine.Set(nil, r.Secrets)
	return c.NoContent(http.StatusNoContent)
}

// report sums everything up, after waiting (up to waitIdle) until nothing is
// pending; detail=1 names every delivery.
func (s *control) report(c echo.Context) error {
	if text := c.QueryParam("waitIdle"); text != "" {
		wait, err := time.ParseDuration(text)
		if err != nil {
			return echo.NewHTTPError(http.StatusBadRequest, fmt.Sprintf("waitIdle %q is not a duration such as 30s", text))
		}
		deadline := time.After(wait)
		for !s.engine.Idle() {
			select {
			case <-c.Request().Context().Done():
				return nil
			case <-deadline:
				return echo.NewHTTPError(http.StatusGatewayTimeout, "deliveries are still pending")
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	queued, processing := s.tasks.Counts()
	return c.JSON(http.StatusOK, map[string]any{
		"deliveries": s.engine.Report(c.QueryParam("detail") != ""),
		"tasks":      map[string]int{"queued": queued, "processing": processing},
		"api":        s.api.Counts(),
	})
}
