// Command catchwater is the one program a person types: it runs a whole system
// on this machine, migrates databases, and operates on running systems.
package main

import (
	"os"

	"github.com/catchwater/catchwater/services/catchwater"
)

func main() { os.Exit(catchwater.Main(os.Args[1:], os.Stdout, os.Stderr)) }
