// Command stalemate runs scenarios against the reference reconcilers that come with it. A team that tests reconcilers of
// its own ships a command of its own: see package cmd.
package main

import (
	"os"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
)

func main() {
	registry := &scenarios.Registry{}
	reference.Register(registry)
	os.Exit(cmd.Main(os.Args, os.Stdout, os.Stderr, registry))
}
