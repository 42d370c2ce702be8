package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/answerline"
	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/services/simulator/gate"
)

// control adds the API that turns the provider's faults on, makes things happen,
// and says what has happened.
func (p *answerlineProvider) control(g *echo.Group) {
	p.outlet.register(g)
	g.GET("/faults", p.showFaults)
	g.PUT("/faults", p.setFaults)
	g.POST("/reset", p.resetAll)

	g.POST("/burst", p.burstOfTasks)
	g.GET("/bursts/:id", p.showBurst)
	g.POST("/tasks", p.makeTask)
	g.POST("/tasks/:id/finish", p.finishTask)
	g.POST("/tasks/:id/move", p.moveTask)
	g.POST("/tasks/:id/deliver", p.deliverTask)

	g.GET("/deliveries", p.deliveries)
	g.POST("/test-delivery", p.testDelivery)
	g.GET("/report", p.summary)
}

// answerlineFaults are all of them; they are replaced together.
type answerlineFaults struct {
	Delivery delivery.Faults   `json:"delivery"`
	API      answerline.Faults `json:"api"`
}

func (p *answerlineProvider) showFaults(c echo.Context) error {
	return c.JSON(http.StatusOK, answerlineFaults{p.engine.Faults(), p.api.Faults()})
}

// setFaults replaces all faults; {} turns them off.
func (p *answerlineProvider) setFaults(c echo.Context) error {
	var f answerlineFaults
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

func (p *answerlineProvider) resetAll(c echo.Context) error {
	p.reset()
	return c.NoContent(http.StatusNoContent)
}

// taskBurst is what a burst of finished tasks is asked for with.
type taskBurst struct {
	pace
	KeyPrefix   string  `json:"keyPrefix"` // idempotency keys are <prefix>-<n>; none without it
	Jobs        int     `json:"jobs"`      // with it, keys are of so many jobs: <prefix>-<n mod jobs>, then with -r1, -r2 …
	TaskType    string  `json:"taskType"`
	ResultBytes int     `json:"resultBytes"`
	FailRatio   float64 `json:"failRatio"`
	NoDelivery  bool    `json:"noDelivery"` // as if all deliveries were lost, without a trace in the log
}

func (r taskBurst) validate() string {
	if message := r.pace.validate(); message != "" {
		return message
	}
	switch {
	case r.Jobs < 0 || r.Jobs > 0 && r.KeyPrefix == "":
		return "jobs: use 1 or more, with a keyPrefix"
	case !(r.FailRatio >= 0 && r.FailRatio <= 1):
		return "failRatio: use 0 to 1"
	case r.ResultBytes < 0 || r.ResultBytes > maxResultBytes:
		return fmt.Sprintf("resultBytes is %d: use 0 to %d", r.ResultBytes, maxResultBytes)
	}
	return ""
}

// key is the idempotency key of the burst's nth task.
func (r taskBurst) key(n int) *string {
	if r.KeyPrefix == "" {
		return nil
	}
	job, again := n, 0
	if r.Jobs > 0 {
		job, again = n%r.Jobs, n/r.Jobs
	}
	key := fmt.Sprintf("%s-%d", r.KeyPrefix, job)
	if again > 0 {
		key += fmt.Sprintf("-r%d", again)
	}
	return &key
}

// burstView is what is told of a burst of tasks.
type burstView struct {
	progress
	TaskIDs []string `json:"taskIds"`
}

func viewOfTasks(b *burst) (v burstView) {
	v.progress, v.TaskIDs = b.progress()
	return v
}

// burstOfTasks finishes made-up tasks, so many a second.
func (p *answerlineProvider) burstOfTasks(c echo.Context) error {
	var ask taskBurst
	if err := read(c, &ask); err != nil {
		return err
	}
	if message := ask.validate(); message != "" {
		return invalid("%s", message)
	}
	b, status := p.burst(c, ask.pace, func(n int, random *rand.Rand) (string, error) {
		exact := answerline.Exact{TaskType: ask.TaskType, IdempotencyKey: ask.key(n), ResultBytes: ask.ResultBytes, NoDelivery: ask.NoDelivery}
		if random.Float64() < ask.FailRatio {
			exact.Status = answerline.Failed
		}
		made, err := p.tasks.Make(exact)
		return made.ID, err
	})
	return c.JSON(status, viewOfTasks(b))
}

func (p *answerlineProvider) showBurst(c echo.Context) error {
	b, err := p.findBurst(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, viewOfTasks(b))
}

func (p *answerlineProvider) makeTask(c echo.Context) error {
	var exact answerline.Exact
	if err := read(c, &exact); err != nil {
		return err
	}
	made, err := p.tasks.Make(exact)
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusCreated, made)
}

func (p *answerlineProvider) finishTask(c echo.Context) error {
	f := struct {
		Status   string          `json:"status"`
		Response json.RawMessage `json:"response"`
	}{Status: answerline.Completed}
	if err := read(c, &f); err != nil {
		return err
	}
	made, err := p.tasks.Finish(gate.PathID(c), f.Status, f.Response)
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusOK, made)
}

// moveTask puts a task into QUEUED or PROCESSING and holds it there.
func (p *answerlineProvider) moveTask(c echo.Context) error {
	var m struct {
		Status string `json:"status"`
	}
	if err := read(c, &m); err != nil {
		return err
	}
	task, err := p.tasks.Move(gate.PathID(c), m.Status)
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusOK, task)
}

func (p *answerlineProvider) deliverTask(c echo.Context) error {
	made, err := p.tasks.Deliver(gate.PathID(c))
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusAccepted, made)
}

// taskDelivery is an entry of the delivery log as it is shown.
type taskDelivery struct {
	TaskID string `json:"taskId"`
	delivery.Delivery
}

func taskDeliveries(list []delivery.Delivery) []taskDelivery {
	shown := make([]taskDelivery, len(list))
	for n, d := range list {
		shown[n] = taskDelivery{d.Subject.ID(), d}
	}
	return shown
}

// deliveries is the provider's delivery log, the newest first.
func (p *answerlineProvider) deliveries(c echo.Context) error {
	list, err := p.log(c, "taskId")
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, taskDeliveries(list))
}

// testDelivery sends what the dashboard's button sends.
func (p *answerlineProvider) testDelivery(c echo.Context) error {
	return c.JSON(http.StatusOK, p.engine.Sample(c.Request().Context()))
}

// Report is what the simulated Answerline says of what it has done.
type Report struct {
	// Idle says that no delivery is pending and no burst is running.
	Idle       bool              `json:"idle"`
	Deliveries TaskDeliveries    `json:"deliveries"`
	Tasks      answerline.Counts `json:"tasks"`
	API        map[string]int    `json:"api"` // requests by operation, and by what went wrong
}

// TaskDeliveries sum the delivery log up.
type TaskDeliveries struct {
	delivery.Report
	// TaskIDs are the tasks of the log in each state, on request.
	TaskIDs map[delivery.State][]string `json:"taskIds,omitempty"`
	// Deliveries is the log itself, the oldest first, on request.
	Deliveries []taskDelivery `json:"deliveries,omitempty"`
}

// summary answers with the report.
func (p *answerlineProvider) summary(c echo.Context) error {
	r, status, err := p.report(c)
	if err != nil {
		return err
	}
	return c.JSON(status, Report{
		Idle: p.idle(), Tasks: p.tasks.Counts(), API: p.api.Counts(),
		Deliveries: TaskDeliveries{r, r.SubjectIDs, taskDeliveries(r.Deliveries)},
	})
}
