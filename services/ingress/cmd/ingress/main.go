// Command ingress verifies deliveries and stores them in the inbox.
package main

import (
	"os"
	"runtime/debug"

	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/services/ingress"
)

// gcPercent lets garbage grow to a few times what is live, which is little
// here, for a quarter more deliveries a second under load. GOGC overrides it.
const gcPercent = 300

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	service.Main("ingress", "Verifies webhook deliveries, stores them in the inbox, and answers 2xx after the commit.",
		ingress.Config{}, ingress.Run)
}
