package simulator

import (
	"errors"
	"math/rand/v2"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/services/simulator/gate"
	"github.com/catchwater/catchwater/services/simulator/koltrix"
)

// control adds the API that turns the provider's faults on, makes things happen,
// and says what has happened.
func (p *koltrixProvider) control(g *echo.Group) {
	p.outlet.register(g)
	g.GET("/faults", p.showFaults)
	g.PUT("/faults", p.setFaults)
	g.GET("/chances", p.showChances)
	g.PUT("/chances", p.setChances)
	g.POST("/reset", p.resetAll)

	g.POST("/burst", p.burstOfMessages)
	g.GET("/bursts/:id", p.showBurst)
	g.POST("/messages", p.makeMessage)
	g.POST("/messages/:id/events", p.emit)

	g.GET("/deliveries", p.deliveries)
	g.GET("/report", p.summary)
}

// koltrixFaults are all of them; they are replaced together.
type koltrixFaults struct {
	Delivery delivery.Faults `json:"delivery"`
	API      gate.Faults     `json:"api"`
}

func (p *koltrixProvider) showFaults(c echo.Context) error {
	return c.JSON(http.StatusOK, koltrixFaults{p.engine.Faults(), p.api.Faults()})
}

// setFaults replaces all faults; {} turns them off.
func (p *koltrixProvider) setFaults(c echo.Context) error {
	var f koltrixFaults
	if err := read(c, &f); err != nil {
		return err
	}
	if err := errors.Join(f.Delivery.Validate(), f.API.Validate()); err != nil {
		return invalid("%v", err)
	}
	p.engine.SetFaults(f.Delivery)
	p.api.SetFaults(f.API)
	return c.NoContent(http.StatusNoContent)
}

func (p *koltrixProvider) showChances(c echo.Context) error {
	return c.JSON(http.StatusOK, p.messages.Chances())
}

// setChances replaces those that are given.
func (p *koltrixProvider) setChances(c echo.Context) error {
	chances := p.messages.Chances()
	if err := read(c, &chances); err != nil {
		return err
	}
	if err := chances.Validate(); err != nil {
		return invalid("%v", err)
	}
	p.messages.SetChances(chances)
	return c.NoContent(http.StatusNoContent)
}

func (p *koltrixProvider) resetAll(c echo.Context) error {
	p.reset()
	return c.NoContent(http.StatusNoContent)
}

// messageBurst is what a burst of messages is asked for with: all are alike, but
// for what is made up of each.
type messageBurst struct {
	pace
	koltrix.Exact
}

// messageBurstView is what is told of a burst of messages.
type messageBurstView struct {
	progress
	MessageIDs []string `json:"messageIds"`
}

func viewOfMessages(b *burst) (v messageBurstView) {
	v.progress, v.MessageIDs = b.progress()
	return v
}

func (p *koltrixProvider) burstOfMessages(c echo.Context) error {
	var ask messageBurst
	if err := read(c, &ask); err != nil {
		return err
	}
	if message := ask.pace.validate(); message != "" {
		return invalid("%s", message)
	}
	if ask.Exact.ID != "" {
		return invalid("message_id: messages of a burst have ids of their own")
	}
	if err := ask.Exact.Validate(); err != nil {
		return refused(err)
	}
	b, status := p.burst(c, ask.pace, func(int, *rand.Rand) (string, error) {
		made, err := p.messages.Make(ask.Exact)
		return made.ID, err
	})
	return c.JSON(status, viewOfMessages(b))
}

func (p *koltrixProvider) showBurst(c echo.Context) error {
	b, err := p.findBurst(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, viewOfMessages(b))
}

func (p *koltrixProvider) makeMessage(c echo.Context) error {
	var exact koltrix.Exact
	if err := read(c, &exact); err != nil {
		return err
	}
	made, err := p.messages.Make(exact)
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusCreated, made)
}

// emit makes one more event of a message.
func (p *koltrixProvider) emit(c echo.Context) error {
	var step koltrix.Step
	if err := read(c, &step); err != nil {
		return err
	}
	made, err := p.messages.Emit(gate.PathID(c), step)
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusAccepted, made)
}

// eventDelivery is an entry of the delivery log as it is shown.
type eventDelivery struct {
	koltrix.Event
	delivery.Delivery
}

func eventDeliveries(list []delivery.Delivery) []eventDelivery {
	shown := make([]eventDelivery, len(list))
	for n, d := range list {
		shown[n].Delivery = d
		if happened, ok := d.Subject.(*koltrix.Occurrence); ok {
			shown[n].Event = happened.Event
		}
	}
	return shown
}

// deliveries is the provider's delivery log, the newest first.
func (p *koltrixProvider) deliveries(c echo.Context) error {
	list, err := p.log(c, "messageId")
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, eventDeliveries(list))
}

// KoltrixReport is what the simulated Koltrix says of what it has done.
type KoltrixReport struct {
	// Idle says that no delivery is pending and no burst is running.
	Idle       bool            `json:"idle"`
	Deliveries EventDeliveries `json:"deliveries"`
	Messages   koltrix.Counts  `json:"messages"`
	API        map[string]int  `json:"api"` // requests by operation, and by what went wrong
}

// EventDeliveries sum the delivery log up.
type EventDeliveries struct {
	delivery.Report
	// MessageIDs are the messages whose events are in the log in each state, once
	// for each event, on request.
	MessageIDs map[delivery.State][]string `json:"messageIds,omitempty"`
	// Deliveries is the log itself, the oldest first, on request.
	Deliveries []eventDelivery `json:"deliveries,omitempty"`
}

// summary answers with the report.
func (p *koltrixProvider) summary(c echo.Context) error {
	r, status, err := p.report(c)
	if err != nil {
		return err
	}
	return c.JSON(status, KoltrixReport{
		Idle: p.idle(), Messages: p.messages.Counts(), API: p.api.Counts(),
		Deliveries: EventDeliveries{r, r.SubjectIDs, eventDeliveries(r.Deliveries)},
	})
}
