package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/answerline"
	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/services/simulator/gate"
	"github.com/catchwater/catchwater/services/simulator/koltrix"
)

// answerError writes every error in the form of the providers' APIs.
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
	_ = gate.Fail(c, status, code, message)
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

// refused translates what the providers' parts refuse.
func refused(err error) error {
	for _, known := range []struct {
		err    error
		status int
	}{
		{answerline.ErrUnknown, http.StatusNotFound}, {answerline.ErrExists, http.StatusConflict},
		{answerline.ErrFinal, http.StatusConflict}, {answerline.ErrNotFinal, http.StatusConflict},
		{answerline.ErrStatus, http.StatusBadRequest},
		{koltrix.ErrUnknown, http.StatusNotFound}, {koltrix.ErrExists, http.StatusConflict},
		{koltrix.ErrNoEvent, http.StatusBadRequest},
		{delivery.ErrUnknown, http.StatusNotFound}, {delivery.ErrPending, http.StatusConflict},
		{delivery.ErrGone, http.StatusGone}, {delivery.ErrTooOften, http.StatusTooManyRequests},
	} {
		if errors.Is(err, known.err) {
			return echo.NewHTTPError(known.status, err.Error())
		}
	}
	return err
}
