package simulator

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// outlet is what every simulated provider has: an engine that delivers, bursts
// that give it much to deliver, and the part of the control API about these.
type outlet struct {
	engine *delivery.Engine
	bursts *bursts
}

// newOutlet returns an outlet at rest; its bursts end with ctx.
func newOutlet(ctx context.Context, cfg delivery.Config) outlet {
	return outlet{engine: delivery.NewEngine(cfg), bursts: newBursts(ctx, cfg.Seed)}
}

// register adds the routes that are the same for all providers.
func (o outlet) register(g *echo.Group) {
	g.PUT("/webhook", o.setWebhook)
	g.PUT("/secrets", o.setSecrets)
	g.POST("/pause", o.pause(true))
	g.POST("/resume", o.pause(false))
	g.POST("/deliveries/:id/redeliver", o.redeliver)
	g.POST("/raw-delivery", o.rawDelivery)
}

func (o outlet) setWebhook(c echo.Context) error {
	var w struct {
		URL string `json:"url"`
	}
	if err := read(c, &w); err != nil {
		return err
	}
	o.engine.SetURL(w.URL)
	return c.NoContent(http.StatusNoContent)
}

// setSecrets replaces the valid secrets: with the old and the new one in the
// list both are, with the new one alone the old one is retired.
func (o outlet) setSecrets(c echo.Context) error {
	var r struct {
		Secrets []string `json:"secrets"`
	}
	if err := read(c, &r); err != nil {
		return err
	}
	if len(r.Secrets) == 0 || slices.Contains(r.Secrets, "") {
		return invalid("secrets: give at least one, and none that is empty")
	}
	o.engine.SetSecrets(r.Secrets)
	return c.NoContent(http.StatusNoContent)
}

func (o outlet) pause(paused bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		o.engine.Pause(paused)
		return c.NoContent(http.StatusNoContent)
	}
}

func (o outlet) redeliver(c echo.Context) error {
	if err := o.engine.Redeliver(c.Param("id")); err != nil {
		return refused(err)
	}
	return c.NoContent(http.StatusAccepted)
}

// rawDelivery signs and sends exactly the bytes given, once, outside the log.
func (o outlet) rawDelivery(c echo.Context) error {
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
	return c.JSON(http.StatusOK, o.engine.Send(c.Request().Context(), raw))
}

// log is the deliveries that a request asks for, the newest first. The query's
// parameter named of picks a subject.
func (o outlet) log(c echo.Context, of string) ([]delivery.Delivery, error) {
	const usual = 10_000
	f := delivery.Filter{State: delivery.State(c.QueryParam("state")), SubjectID: c.QueryParam(of), Limit: usual}
	if text := c.QueryParam("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, invalid("limit %q: use 1 or more", text)
		}
		f.Limit = n
	}
	switch f.State {
	case "", delivery.Pending, delivery.Delivered, delivery.Dead, delivery.Dropped:
	default:
		return nil, invalid("state %q: use pending, delivered, dead or dropped", f.State)
	}
	return o.engine.List(f), nil
}

// burst starts a burst, and returns when all of its deliveries are queued, unless
// it is told not to wait. The status is the answer's.
func (o outlet) burst(c echo.Context, p pace, one maker) (b *burst, status int) {
	b = o.bursts.start(p, one)
	if p.NoWait {
		return b, http.StatusAccepted
	}
	select {
	case <-b.done:
	case <-c.Request().Context().Done():
	}
	return b, http.StatusOK
}

// findBurst is the burst that the path names.
func (o outlet) findBurst(c echo.Context) (*burst, error) {
	b := o.bursts.find(c.Param("id"))
	if b == nil {
		return nil, echo.NewHTTPError(http.StatusNotFound, "there is no such burst, or it is no longer remembered")
	}
	return b, nil
}

// report sums the deliveries up: with ids=1 by subject, with detail=1 by
// delivery. With waitIdle it first waits until nothing is pending; when that
// does not come in time, the answer's status is 504.
func (o outlet) report(c echo.Context) (r delivery.Report, status int, err error) {
	status = http.StatusOK
	if text := c.QueryParam("waitIdle"); text != "" {
		wait, err := time.ParseDuration(text)
		if err != nil {
			return r, 0, invalid("waitIdle %q is not a duration such as 30s", text)
		}
		if !o.awaitIdle(c, wait) {
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
	return o.engine.Report(detail), status, nil
}

func asked(c echo.Context, name string) bool {
	yes, _ := strconv.ParseBool(c.QueryParam(name))
	return yes
}

func (o outlet) idle() bool { return o.bursts.idle() && o.engine.Idle() }

// awaitIdle reports whether nothing was pending before the wait was over or the
// client gone.
func (o outlet) awaitIdle(c echo.Context, wait time.Duration) bool {
	const look = 5 * time.Millisecond
	deadline, ticker := time.NewTimer(wait), time.NewTicker(look)
	defer deadline.Stop()
	defer ticker.Stop()
	for !o.idle() {
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
