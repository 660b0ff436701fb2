package fuzz

import (
	"fmt"
	"strings"
	"time"
)

// Status is how far an exploration is.
type Status struct {
	Elapsed time.Duration
	// For is how long it is to take, zero if it ends with a number of runs.
	For time.Duration
	// Targets are all there are; Swept those whose sweeps are done, Ended those of which nothing is left to do.
	Targets, Swept, Ended int
	// Executions counts the runs of units that are done, and Findings and Known what they found.
	Executions, Findings, Known, Deaths int
	Workers                             int
}

// String says it in a line.
func (s Status) String() string {
	var b strings.Builder
	_, _ = fmt.Fprint(&b, s.Elapsed.Truncate(time.Second)) // a Builder takes everything
	if s.For > 0 {
		_, _ = fmt.Fprintf(&b, " of %s", s.For)
	}
	_, _ = fmt.Fprintf(&b, ": %d runs", s.Executions)
	if seconds := s.Elapsed.Seconds(); seconds >= 1 {
		_, _ = fmt.Fprintf(&b, " (%.0f/s)", float64(s.Executions)/seconds)
	}
	_, _ = fmt.Fprintf(&b, ", %d of %d targets swept", s.Swept, s.Targets)
	if s.Ended > 0 {
		_, _ = fmt.Fprintf(&b, ", %d ended", s.Ended)
	}
	_, _ = fmt.Fprintf(&b, ", %d findings, %d in what is known to be broken", s.Findings, s.Known)
	if s.Deaths > 0 {
		_, _ = fmt.Fprintf(&b, ", %d process findings", s.Deaths)
	}
	return b.String()
}

// status says how far the exploration is. The caller holds the mutex.
func (s *supervisor) status(now time.Time) Status {
	st := Status{Elapsed: now.Sub(s.begun), For: s.For, Workers: s.Workers, Targets: len(s.ledgers)}
	for _, l := range s.ledgers {
		if l.done[keySweeps] || !l.sweeps() {
			st.Swept++
		}
		if l.idle() {
			st.Ended++
		}
		st.Executions += l.base.Tally.Executions - l.resumed
		for _, part := range l.current {
			st.Executions += part.Tally.Executions
		}
		if l.Fails() {
			st.Findings += l.findings
		} else {
			st.Known += l.findings
		}
		st.Deaths += len(l.deaths())
	}
	return st
}
