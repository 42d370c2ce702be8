// Command processor turns inbox rows into answers.
package main

import (
	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/services/processor"
)

func main() {
	service.Main("processor", "Claims inbox rows, applies their source's projection, and marks them processed.",
		processor.Config{}, processor.Run)
}
