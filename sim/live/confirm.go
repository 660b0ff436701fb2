package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Outcome says what a real cluster has to say of a finding.
type Outcome string

// The outcomes.
const (
	// Confirmed means that what the finding breaks is broken against the real API server, too.
	Confirmed Outcome = "confirmed"
	// NotConfirmed means that it is not.
	NotConfirmed Outcome = "not confirmed"
	// NotApplicable means that the schedule has something that only a simulation can bring about.
	NotApplicable Outcome = "not applicable"
)

// Finding is a schedule, and what it is of.
type Finding struct {
	// Name of the schedule, for messages.
	Name string
	// Config is the scenario, with the reconcilers that are to run.
	Config *sim.Config
	// Schedule is what must happen.
	Schedule *schedule.Schedule
}

// Options say how long a confirmation may take.
type Options struct {
	// Timeout bounds the run, in real time; 10 minutes if zero.
	Timeout time.Duration
	// Quiet is for how long nothing must be committed for the cluster to be at rest; if zero, longer than the simulated cluster
	// was ever silent before it was, and 10 seconds at least.
	Quiet time.Duration
	// Progress is told what goes on, if set.
	Progress func(string)
	_        struct{}
}

// Result is what a confirmation came to.
type Result struct {
	Name    string
	Outcome Outcome
	// Why says in words what the outcome follows from: what cannot be played, or what did not come about.
	Why []string
	// Expected are the properties that the finding is about.
	Expected []string
	// Verdicts are the properties' verdicts on the real run.
	Verdicts []property.Verdict
	// Simulated is the run of the schedule in the simulation; SimulationBroken says that what is expected is broken there.
	Simulated        *history.History
	SimulationBroken bool
	// Steps are what happened in the real run.
	Steps []Step
	// Parting is where the writes of the processes under test part from those in the simulation, nil where they do not.
	Parting *Parting
	// Elements say what became of each element of the schedule.
	Elements []Element
	// PlayedBy says who played whom.
	PlayedBy []string
	// Quiet is the span without a commit after which the cluster was taken to be at rest; Rested says that it was.
	Quiet  time.Duration
	Rested bool
	// Took is the real time of it all, Script that since the script began.
	Took, Script time.Duration
	// Problems are steps of the script that were refused; Panics those of reconcilers.
	Problems, Panics []string
}

// Element is a constraint, a latency or a fault of a schedule.
type Element struct {
	Text string
	// Met says that it came about.
	Met bool
}

// Confirm plays a finding against a real API server. The error is that of the harness or of the set-up of a program, and never
// says anything of the finding; where there is no control plane it is [assets.ErrMissing].
func Confirm(ctx context.Context, f Finding, o Options) (*Result, error) {
	began := time.Now() // real time, as all of this package: the cluster is real
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	run := &confirmation{finding: f, options: o, result: &Result{Name: f.Name}}
	err := run.simulate()
	if err == nil && run.result.Outcome == "" {
		err = run.play(ctx)
	}
	run.result.Took = time.Since(began)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return run.result, nil
}

// confirmation is one of a finding.
type confirmation struct {
	finding Finding
	options Options
	config  *sim.Config
	plan    *plan
	result  *Result
}

// simulate runs the schedule in the simulation, which says what is to come about, and sees whether that can be played.
func (c *confirmation) simulate() error {
	world, err := sim.NewWorld(c.finding.Config)
	if err != nil {
		return err
	}
	c.config = world.Config()
	s, r := c.finding.Schedule, c.result
	replay, err := explore.Replay(world, s, false)
	if err != nil {
		return err
	}
	r.Simulated = replay.Run
	r.Expected = expected(c.config.Properties, s, replay.Run)
	r.SimulationBroken = replay.Run.Outcome == history.Panicked || breaks(replay.Run.Verdicts, r.Expected)
	var why []string
	c.plan, why = planOf(c.config, s, replay.Run)
	why = append(why, missing(c.config.Kinds, c.config.Properties)...)
	if len(r.Expected) == 0 && s.Expect.Outcome == schedule.Violated && replay.Run.Failed() {
		why = append(why, fmt.Sprintf("%s is a detector's to judge, and detectors need the history of a simulation", s.Expect.Property))
	}
	if s.Trace != nil && s.Size() == 0 && !replay.Run.Failed() && s.Expect.Outcome == schedule.Violated &&
		s.Origin.Strategy != "default order" {
		why = append(why, "only its trace brings it about, which orders every single step")
	}
	r.Quiet = c.plan.quiet
	if c.options.Quiet > 0 {
		r.Quiet = c.options.Quiet
	}
	if len(why) > 0 {
		r.Outcome, r.Why = NotApplicable, why
	}
	return nil
}

// play runs the schedule against a real server.
func (c *confirmation) play(ctx context.Context) (err error) {
	ours := func(name string) bool { return c.plan.ours[name] }
	c.options.Progress("starting the control plane")
	live, err := newCluster(ctx, c.config, realControllers(c.config, ours))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, live.close()) }()
	if err := c.introduce(live); err != nil || c.result.Outcome != "" {
		return err
	}
	if !c.config.Unsettled {
		if err := c.settle(ctx, live, ours); err != nil || c.result.Outcome != "" {
			return err
		}
	}
	c.options.Progress("playing the schedule")
	live.gate.judge.Lock()
	live.gate.monitor = c.config.Properties.NewMonitor(live.mirror)
	live.gate.monitor.Start(0)
	live.gate.judge.Unlock()
	live.gate.arm(c.plan.holds, c.plan.strikes, newFollow(c.config, c.result.Simulated))
	if c.config.Unsettled {
		if err := live.begin(ours); err != nil {
			return err
		}
	}
	script := time.Now() // real time
	live.beginScript(c.plan.skip)
	c.result.Rested, err = live.rest(ctx, c.result.Quiet)
	if err != nil {
		return err
	}
	c.result.Script = time.Since(script)
	c.conclude(live)
	return nil
}

// introduce says who plays whom, and whether that is the right version.
func (c *confirmation) introduce(live *cluster) error {
	version, err := live.version()
	if err != nil {
		return err
	}
	c.result.PlayedBy = playedBy(c.config, c.plan, version)
	if wanted := string(c.config.Kinds.Version()); !strings.HasPrefix(version, wanted+".") {
		c.result.Outcome = NotApplicable
		c.result.Why = []string{fmt.Sprintf("the scenario is about Kubernetes %s, and the API server is %s", wanted, version)}
	}
	return nil
}

// settle lets the cluster come to rest, and starts the programs under test anew over that.
func (c *confirmation) settle(ctx context.Context, live *cluster, ours func(string) bool) error {
	c.options.Progress("settling")
	if err := live.begin(ours); err != nil {
		return err
	}
	for i := range 2 {
		rested, err := live.rest(ctx, settled)
		if err != nil {
			return err
		}
		if !rested {
			c.result.Outcome = NotApplicable
			c.result.Why = []string{fmt.Sprintf("the scenario does not settle on the real cluster within %s; this happened last:\n%s",
				c.options.Timeout, lastOf(live.gate.history()))}
			return nil
		}
		if i == 0 {
			if err := live.relaunch(); err != nil {
				return err
			}
		}
	}
	return nil
}

// settled is the span without a commit after which a cluster that nothing disturbs is taken to be at rest.
const settled = 5 * time.Second

// conclude judges what came of it.
func (c *confirmation) conclude(live *cluster) {
	r, g := c.result, live.gate
	g.judge.Lock()
	if r.Rested {
		g.monitor.Terminal(g.now())
	}
	r.Verdicts = g.monitor.Verdicts()
	g.monitor = nil
	g.judge.Unlock()
	r.Steps = g.history()
	live.mu.Lock()
	r.Problems, r.Panics = live.problems, live.panics
	live.mu.Unlock()
	r.Elements = c.plan.elements(g)
	r.Parting = parting(c.config, r.Simulated, r.Steps)
	r.Outcome = NotConfirmed
	panicked := len(r.Panics) > 0 && r.Simulated.Outcome == history.Panicked
	if panicked || breaks(r.Verdicts, r.Expected) {
		r.Outcome = Confirmed
		return
	}
	if !r.Rested {
		r.Why = append(r.Why, fmt.Sprintf("the cluster did not come to rest within %s", c.options.Timeout))
	}
	if !r.SimulationBroken {
		r.Why = append(r.Why, "nor does the simulation break it with these reconcilers")
	}
	for _, e := range r.Elements {
		if !e.Met {
			r.Why = append(r.Why, "it did not come about: "+e.Text)
		}
	}
}

// breaks reports whether one of the properties is broken; without any, whether one at all is.
func breaks(verdicts []property.Verdict, names []string) bool {
	return slices.ContainsFunc(verdicts, func(v property.Verdict) bool {
		return v.Status == property.Broken && v.Property.Type != property.Detector &&
			(len(names) == 0 || slices.Contains(names, v.Property.Name))
	})
}

// elements says what became of the schedule's elements.
func (p *plan) elements(g *gate) []Element {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Element
	for _, h := range p.holds {
		text := h.event.String() + " waits for " + h.waits.event.String()
		if h.late > 0 {
			text = fmt.Sprintf("%s %s late", h.event, h.late)
		}
		all = append(all, Element{Text: text, Met: h.met()})
	}
	for _, s := range p.strikes {
		all = append(all, Element{Text: s.String(), Met: s.struck})
	}
	return all
}
