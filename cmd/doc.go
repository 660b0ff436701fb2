// Package cmd is the stalemate command as a library. A team registers its own reconcilers and ships its own binary, which
// then runs scenarios that name them:
//
//	func main() {
//		registry := &scenarios.Registry{}
//		widget.Register(registry)
//		os.Exit(cmd.Main(os.Args, os.Stdout, os.Stderr, registry))
//	}
//
// Exit codes tell a script how it came out; see [Exit].
package cmd
