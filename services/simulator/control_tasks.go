package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/answerline"
	"github.com/catchwater/catchwater/services/simulator/delivery"
)

func (s *control) makeTask(c echo.Context) error {
	var exact answerline.Exact
	if err := read(c, &exact); err != nil {
		return err
	}
	made, err := s.tasks.Make(exact)
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusCreated, made)
}

func (s *control) finishTask(c echo.Context) error {
	f := struct {
		Status   string          `json:"status"`
		Response json.RawMessage `json:"response"`
	}{Status: answerline.Completed}
	if err := read(c, &f); err != nil {
		return err
	}
	made, err := s.tasks.Finish(answerline.PathID(c), f.Status, f.Response)
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusOK, made)
}

// moveTask puts a task into QUEUED or PROCESSING and holds it there.
func (s *control) moveTask(c echo.Context) error {
	var m struct {
		Status string `json:"status"`
	}
	if err := read(c, &m); err != nil {
		return err
	}
	task, err := s.tasks.Move(answerline.PathID(c), m.Status)
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusOK, task)
}

func (s *control) deliverTask(c echo.Context) error {
	made, err := s.tasks.Deliver(answerline.PathID(c))
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusAccepted, made)
}

// deliveries is the provider's delivery log, the newest first.
func (s *control) deliveries(c echo.Context) error {
	const usual = 10_000
	f := delivery.Filter{State: delivery.State(c.QueryParam("state")), TaskID: c.QueryParam("taskId"), Limit: usual}
	if text := c.QueryParam("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return invalid("limit %q: use 1 or more", text)
		}
		f.Limit = n
	}
	switch f.State {
	case "", delivery.Pending, delivery.Delivered, delivery.Dead, delivery.Dropped:
	default:
		return invalid("state %q: use pending, delivered, dead or dropped", f.State)
	}
	return c.JSON(http.StatusOK, s.engine.List(f))
}

func (s *control) redeliver(c echo.Context) error {
	if err := s.engine.Redeliver(c.Param("id")); err != nil {
		return refused(err)
	}
	return c.NoContent(http.StatusAccepted)
}

// testDelivery sends what the dashboard's button sends.
func (s *control) testDelivery(c echo.Context) error {
	return c.JSON(http.StatusOK, s.engine.Sample(c.Request().Context()))
}

// rawDelivery signs and sends exactly the bytes given, once, outside the log.
func (s *control) rawDelivery(c echo.Context) error {
	r := struct {
		ID       string             `json:"id"`
		Body     []byte             `json:"body"` // base64
		Text     string             `json:"text"` // or as it stands
		Headers  map[string]*string `json:"headers"`
		URL      string             `json:"url"`
		Secrets  []string           `json:"secrets"`
		SignedAt int64              `json:"signedAt"` // unix seconds
	}{ID: "wh_raw"}
	if err := read(c, &r); err != nil {
		return err
	}
	raw := delivery.Raw{ID: r.ID, Body: r.Body, Headers: r.Headers, URL: r.URL, Secrets: r.Secrets}
	if r.Body == nil {
		raw.Body = []byte(r.Text)
	}
	if r.SignedAt != 0 {
		raw.SignedAt = time.Unix(r.SignedAt, 0)
	}
	return c.JSON(http.StatusOK, s.engine.Send(c.Request().Context(), raw))
}
