// Command reconciler asks the provider for results that never arrived.
package main

import (
	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/services/reconciler"
)

func main() {
	service.Main("reconciler", "Finds submitted tasks without a result, asks the provider for them, and feeds what it says into the inbox.",
		reconciler.Config{}, reconciler.Run)
}
