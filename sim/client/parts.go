package client

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/stalemate-dev/stalemate/sim"
)

// Parts returns what a program was made of by [Manager] or [Reconcilers], so that it can be run on a real manager: its set-up,
// and the options that it wants its manager to have. It reports false for other programs.
//
// A set-up by [SetUp] needs a manager whose GetAPIReader returns a client.Client.
func Parts(p sim.Program) (setup func(ctrl.Manager) error, options ctrl.Options, ok bool) {
	made, ok := p.(*program)
	if !ok {
		return nil, ctrl.Options{}, false
	}
	return made.setup, made.settings.options, true
}
