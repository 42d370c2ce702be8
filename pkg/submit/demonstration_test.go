package submit_test

import (
	"fmt"
	"testing"

	"github.com/catchwater/catchwater/pkg/pgtest"
)

// exampleTB lets an example have a database of pgtest's, which asks for a test.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper() {}

func (exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// demonstration starts what the example talks to.
func demonstration() (databaseURL, apiURL string, stop func()) {
	p := newProvider()
	return pgtest.New(exampleTB{}), p.URL, p.Close
}
