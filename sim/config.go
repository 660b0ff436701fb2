package sim

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Config says what may happen in the runs of one scenario. It is read only: runs never change it, and several runs may
// share it.
type Config struct {
	// Name of the scenario, for reports.
	Name string
	// Kinds are the kinds the API server knows; it also fixes the Kubernetes version.
	Kinds *apiserver.Kinds
	// Scheme holds the Go types of the operator under test. Kinds of it that are unknown to Kinds follow the rules of custom
	// resources without a schema, see [apiserver.Kinds.WithTypes], and the verdict names those that are used.
	Scheme *runtime.Scheme
	// Given are the objects at the start, kept as written: status, generation, deletionTimestamp and finalizers included.
	Given []apiserver.Object
	// Unsettled starts every run from Given as written. Otherwise objects, processes and racers first run to a terminal
	// state in the default order, and every run starts from there.
	Unsettled bool
	// Processes are the operators under test.
	Processes []Process
	// Racers are the competitors, in the order they start in.
	Racers []RacerConfig
	// Faults are what may go wrong.
	Faults Faults
	// NewReactor makes the reactor of a fault: reactors.New. It is needed where there are faults.
	NewReactor func(schedule.Fault) (Reactor, error)
	// Reactors make further reactors, anew for each run. They see every request, in this order, before those of faults.
	Reactors []func() Reactor
	// Webhooks are admission webhooks of others than the operators under test, besides those that Given configures and processes
	// serve. They are called on the engine's goroutine, must neither block nor make requests, and must keep no state from one
	// request to the next.
	Webhooks []apiserver.Hook
	// Properties judge the runs.
	Properties *property.Set
	// Detectors look for what no operator should do, whatever it is for; nil for none.
	Detectors *detect.Set
	// Limits bound a run. Zero fields take their defaults.
	Limits Limits
}

// Process is an operator's program under a name.
type Process struct {
	Name    string
	Program Program
	// Access is who the program is to the API server, and what it may do there: what it may not is answered with 403. Nil may do
	// everything. [rbac.Policy.For] makes one of an operator's roles.
	Access *rbac.Access
	// Upgrades are the programs that may take its place, by the names of their reconcilers.
	Upgrades map[string]Program
}

// Program is what a process runs. sim/client makes them from a manager's setup or from a reconciler.
type Program interface {
	// Start starts the program; it runs in a goroutine of its own within the run's bubble, and may block. The context
	// ends with the process. An error ends the process: it is started again after a back-off, as the kubelet does that
	// (10 s, doubled up to 5 minutes), unless it is the program's set-up that is wrong, see [ProgramError].
	Start(ctx context.Context, env *Env) error
}

// RacerConfig is a racer under a name.
type RacerConfig struct {
	Name string
	// New makes the racer of one run.
	New func() Racer
	// Real are the controllers of kube-controller-manager that the racer stands for, as its flag --controllers names them: where
	// there is a real control plane they play its part.
	Real []string
	// WithScript makes the racer part of the story told, like a user's script: it starts when the script begins, and
	// takes no part in settling. Other racers belong to the cluster and always run.
	WithScript bool
}

// Limits bound a run.
type Limits struct {
	// Steps bounds the number of steps; 20000 if zero.
	Steps int
	// VirtualTime bounds the virtual time of the run; 24 h if zero.
	VirtualTime time.Duration
	// Hold bounds in virtual time how long a constraint may hold a step; 120 s if zero.
	Hold time.Duration
	// Stuck bounds the real time without a step, after which a run is given up with a [StuckError]; 30 s if zero. It has
	// no influence on the runs that are not stuck.
	Stuck time.Duration
}

// addWebhooks adds the scenario's own webhooks to a server.
func (c *Config) addWebhooks(server *apiserver.Server) error {
	if len(c.Webhooks) == 0 {
		return nil
	}
	return server.AddHooks(c.Webhooks...)
}
