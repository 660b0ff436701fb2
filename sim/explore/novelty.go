package explore

import (
	"slices"

	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Mark is something that a run showed, by its hash.
type Mark uint64

// Novelty is a run that showed what none before it had shown. How many there are of them over time says how much there is left to
// see.
type Novelty struct {
	Origin Origin `json:"origin"`
	// States are how the run ended: the masked state of the cluster, with the run's outcome. There is at most one of a run.
	States []Mark `json:"states,omitempty"`
	// Edges are what came about on the way: that a call at a call site had an outcome, or that a write at one site was overtaken by
	// one at another. Sites are told apart as by [history.SiteResult].
	Edges []Mark `json:"edges,omitempty"`
	// Schedule brings the run about, as far as constraints, latencies and faults can say it; what the strategy did with lists is left
	// out. Where that takes too many elements to be worth keeping, it has none, and only an Origin with the strategy and the seed. See
	// [Unit.Schedules].
	Schedule *schedule.Schedule `json:"schedule"`
}

// maxKept is how many elements the schedule of a novel run may have.
const maxKept = 64

// endOf returns the mark of how a run ended.
func endOf(h *history.History) Mark {
	var hash canon.Hasher
	hash.String("state")
	hash.String(string(h.Outcome))
	hash.Int(int64(h.State))
	return Mark(hash.Sum())
}

// edgesOf calls a function with the marks of what came about in a run after its script began.
func edgesOf(h *history.History, each func(Mark)) {
	for i := h.ScriptBegins; i < len(h.Records); i++ {
		r := &h.Records[i]
		if !r.Event.Verb.IsRequest() {
			continue
		}
		hash := siteHash(r)
		outcome := hash
		outcome.Int(int64(r.Code))
		outcome.String(string(r.Fault))
		each(Mark(outcome.Sum()))
		if !r.OfProcess() || !r.Event.Verb.IsWrite() || r.ReadsFrom < 0 {
			continue
		}
		if by := overtaker(h, i); by >= 0 {
			other := siteHash(&h.Records[by])
			hash.Int(int64(other.Sum()))
			each(Mark(hash.Sum()))
		}
	}
}

// siteHash is the hash of a call site.
func siteHash(r *history.Record) canon.Hasher {
	var hash canon.Hasher
	e := &r.Event
	for _, s := range [...]string{e.Actor, e.Controller, string(e.Verb), e.Kind, e.Namespace, e.Name, e.Subresource} {
		hash.String(s)
	}
	return hash
}

// mark takes note of what a run showed that is new.
func (u *unitWork) mark(origin Origin, h *history.History) {
	n := Novelty{Origin: origin}
	if end := endOf(h); !u.seen[end] {
		u.seen[end] = true
		n.States = []Mark{end}
	}
	edgesOf(h, func(m Mark) {
		if !u.seen[m] {
			u.seen[m] = true
			n.Edges = append(n.Edges, m)
		}
	})
	if len(n.States)+len(n.Edges) == 0 {
		return
	}
	slices.Sort(n.Edges)
	n.Schedule = scheduleOf(origin, h)
	u.novel = append(u.novel, n)
}

// scheduleOf returns what is known of how to bring a run about.
func scheduleOf(origin Origin, h *history.History) *schedule.Schedule {
	s := deviationsOf(h)
	for _, c := range h.Constraints {
		s.Constraints = append(s.Constraints, c.Constraint)
	}
	s.Origin = schedule.Origin{Strategy: origin.Strategy, Seed: origin.Seed, Size: s.Size()}
	if bySeed(origin.Strategy) && s.Size() > maxKept {
		return &schedule.Schedule{Origin: s.Origin}
	}
	return s
}

// mergeNovelties puts the novel runs of parts together: what several have shown is the first one's.
func mergeNovelties(parts []*Part) []Novelty {
	var all []*Novelty
	for _, p := range parts {
		for i := range p.Novel {
			all = append(all, &p.Novel[i])
		}
	}
	slices.SortStableFunc(all, func(a, b *Novelty) int { return CompareOrigins(a.Origin, b.Origin) })
	seen := map[Mark]bool{}
	fresh := func(marks []Mark) []Mark {
		var left []Mark
		for _, m := range marks {
			if !seen[m] {
				seen[m] = true
				left = append(left, m)
			}
		}
		return left
	}
	var novel []Novelty
	for _, n := range all {
		left := *n
		left.States, left.Edges = fresh(n.States), fresh(n.Edges)
		if len(left.States)+len(left.Edges) > 0 {
			novel = append(novel, left)
		}
	}
	return novel
}

// Seen returns all marks that the part's runs have shown, see [Unit.Seen].
func (p *Part) Seen() []Mark {
	var marks []Mark
	for i := range p.Novel {
		marks = append(append(marks, p.Novel[i].States...), p.Novel[i].Edges...)
	}
	return marks
}
