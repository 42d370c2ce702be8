// Command ingress verifies deliveries and stores them in the inbox.
package main

import (
	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/services/ingress"
)

func main() {
	service.Main("ingress", "Verifies webhook deliveries, stores them in the inbox, and answers 2xx after the commit.",
		ingress.Config{}, ingress.Run)
}
