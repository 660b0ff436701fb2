package explore

import (
	"slices"

	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Mark is something that a run showed, by its hash.
type Mark uint64

// Novelty is a run that showed what none before it had shown.
type Novelty struct {
	Origin Origin `json:"origin"`
	// Edges are single things that came about: that a call at a call site had an outcome, that a write at one site was overtaken by
	// one at another, or that the run ended in a state, with an outcome. Call sites are told apart as by [history.SiteResult], and
	// states are masked, see [history.History.State]. There are some dozens in a scenario, most of which the sweeps show.
	Edges []Mark `json:"edges,omitempty"`
	// States are all edges of the run taken together: what it came to, and by which outcomes of which calls, however often and in
	// whatever order. There is one of a run, and hundreds in a scenario; that ever fewer are new says how much there is left to see.
	States []Mark `json:"states,omitempty"`
	// Schedule brings the run about, as far as constraints, latencies and faults can say it; what the strategy did with lists is left
	// out. Where that takes too many elements to be worth keeping, it has none, and only an Origin with the strategy and the seed. See
	// [Unit.Schedules].
	Schedule *schedule.Schedule `json:"schedule"`
}

// maxKept is how many elements the schedule of a novel run may have.
const maxKept = 32

// endOf returns the mark of how a run ended.
func endOf(h *history.History) Mark {
	var hash canon.Hasher
	hash.String("end")
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
	edges := []Mark{endOf(h)}
	edgesOf(h, func(m Mark) { edges = append(edges, m) })
	slices.Sort(edges)
	edges = slices.Compact(edges)
	n := Novelty{Origin: origin, States: u.seen.unseen([]Mark{together(edges)}), Edges: u.seen.unseen(edges)}
	if len(n.States)+len(n.Edges) == 0 {
		return
	}
	n.Schedule = scheduleOf(origin, h)
	u.novel = append(u.novel, n)
}

// together returns the mark of several.
func together(marks []Mark) Mark {
	var hash canon.Hasher
	for _, m := range marks {
		hash.Int(int64(m))
	}
	return Mark(hash.Sum())
}

// seen are the marks that have been seen.
type seen map[Mark]bool

// unseen returns those of the marks that have not been seen, and takes note of them.
func (s seen) unseen(marks []Mark) []Mark {
	var fresh []Mark
	for _, m := range marks {
		if !s[m] {
			s[m] = true
			fresh = append(fresh, m)
		}
	}
	return fresh
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
	known := seen{}
	var novel []Novelty
	for _, n := range all {
		left := *n
		left.States, left.Edges = known.unseen(n.States), known.unseen(n.Edges)
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
