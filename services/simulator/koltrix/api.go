package koltrix

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/gate"
)

const (
	maxRequest = 10 << 20 // bytes
	// fullRetryAfter is what a sender is told, in seconds, when too many messages
	// are under way.
	fullRetryAfter = 1
)

// API serves the provider's API over messages.
type API struct {
	*gate.Gate
	messages *Messages
}

// NewAPI returns the API for one bearer key.
func NewAPI(messages *Messages, key string, seed uint64) *API {
	return &API{Gate: gate.New(key, seed), messages: messages}
}

// Register adds the API's routes.
func (a *API) Register(e *echo.Echo) {
	g := e.Group("/v1/messages", a.Admit)
	g.POST("", a.create)
	g.GET("/:id", a.show)
}

func (a *API) create(c echo.Context) error {
	a.Count("create")
	request, message := readRequest(c.Request().Body)
	if message != "" {
		return gate.Fail(c, http.StatusBadRequest, "VALIDATION_ERROR", message)
	}
	created, err := a.messages.Create(request)
	if errors.Is(err, ErrFull) {
		return a.TurnAway(c, fullRetryAfter, err.Error())
	}
	a.Withhold(c)
	return c.JSON(http.StatusCreated, created)
}

// readRequest reads what a message is sent with; the message says what is wrong
// with it. What the provider would make of its text is not looked at.
func readRequest(body io.Reader) (r Request, message string) {
	data, err := io.ReadAll(io.LimitReader(body, maxRequest))
	if err != nil {
		return r, "the request was cut short"
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, "the request is not JSON of the right form: " + err.Error()
	}
	switch {
	case len(r.To) == 0 || slices.Contains(r.To, ""):
		message = "to must be given: an address, or several"
	case r.From == "":
		message = "from must be given"
	case r.Subject == "":
		message = "subject must be given"
	}
	return r, message
}

// UnmarshalJSON reads one address, or several.
func (r *Recipients) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var one string
	if json.Unmarshal(data, &one) == nil {
		*r = Recipients{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(r))
}

func (a *API) show(c echo.Context) error {
	a.Count("show")
	shown, err := a.messages.Show(gate.PathID(c))
	if err != nil {
		a.Count("not_found")
		return gate.Fail(c, http.StatusNotFound, "NOT_FOUND", err.Error())
	}
	return c.JSON(http.StatusOK, shown)
}
