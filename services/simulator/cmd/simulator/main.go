// Command simulator stands in for a provider of webhooks.
package main

import (
	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/services/simulator"
)

func main() {
	service.Main("simulator", "Stands in for a provider: its API, its delivery engine, its faults. Never for production.",
		simulator.Config{}, simulator.Run)
}
