package fuzz

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// maxLines is how many lines of a list a brief summary has.
const maxLines = 12

// summary writes what a night came to.
type summary struct {
	w     io.Writer
	night *Night
	whole bool
	err   error
}

// Text writes what the night came to for a person to read: all of it, or what matters.
func (n *Night) Text(w io.Writer, whole bool) error {
	s := &summary{w: w, night: n, whole: whole}
	j := n.Judge()
	s.findings(j)
	s.deaths("PROCESS FINDINGS", j.Deaths)
	s.known(j)
	s.explored()
	s.faults()
	s.section("NEVER EXERCISED", n.neverExercised())
	s.section("NOT MODELLED", n.gaps())
	s.section("GIVEN UP", j.GivenUp)
	s.section("NONDETERMINISTIC", j.Nondeterministic)
	s.section("INTERNAL ERRORS", j.Internal)
	s.section("STALE", j.Stale)
	s.section("INCONCLUSIVE", j.Inconclusive)
	s.section("WRONG", j.Wrong)
	s.section("LEFT OUT", n.leftOut())
	s.verdict(j)
	return s.err
}

func (s *summary) printf(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, format, args...)
	}
}

// section writes a list under a title, if there is anything in it.
func (s *summary) section(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	s.printf("%s\n", title)
	shown := lines
	if !s.whole && len(lines) > maxLines {
		shown = lines[:maxLines]
	}
	for _, line := range shown {
		s.printf("  %s\n", strings.ReplaceAll(strings.TrimSpace(line), "\n", "\n    "))
	}
	if more := len(lines) - len(shown); more > 0 {
		s.printf("  and %d more\n", more)
	}
	s.printf("\n")
}

// findings writes those that count.
func (s *summary) findings(j *Judgement) {
	var lines []string
	for _, f := range j.Findings {
		lines = append(lines, f.text())
	}
	s.section("FINDINGS", lines)
}

// text says in two lines what was found.
func (f *Found) text() string {
	how := f.Strategy
	if isBySeed(f.Strategy) {
		how += fmt.Sprintf(", seed %d", f.Seed)
	}
	if f.Also > 0 {
		how += fmt.Sprintf(", and %d runs more", f.Also)
	}
	if f.Schedule != nil {
		how += fmt.Sprintf("; %s", plural(f.Schedule.Size(), "element"))
	}
	if f.Others > 0 {
		how += fmt.Sprintf("; %s to it", plural(f.Others, "other way"))
	}
	return fmt.Sprintf("✗ %s: %s\n%s; %s", f.NightTarget.text(), strings.Join(broken(f.Run), ", "), how, filepath.ToSlash(f.Folder))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// deaths writes what runs did to their processes.
func (s *summary) deaths(title string, deaths []FoundDeath) {
	var lines []string
	for _, d := range deaths {
		again := ""
		if d.Death.Skipped && !d.Death.Repeated {
			again = ", not repeated"
		} else if d.Death.Kind != Leak && !d.Death.Repeated {
			again = ", did not come about again when it was repeated"
		}
		lines = append(lines, fmt.Sprintf("✗ %s: %s\n%s, %s%s; %s", d.text(), d.Death.Text(), d.Death.origin(), plural(d.Count, "run"), again,
			filepath.ToSlash(filepath.Join(d.Folder, d.Death.fileName()))))
	}
	s.section(title, lines)
}

// known writes what was found of what is known to be broken.
func (s *summary) known(j *Judgement) {
	var missing, found []string
	for _, c := range j.Canaries {
		line := fmt.Sprintf("✓ %s: %s", c.Name, strings.Join(c.Breaks, ", "))
		switch {
		case len(c.Missing) == 0:
			found = append(found, line)
			continue
		case c.Short:
			line = fmt.Sprintf("? %s: %s not found, in fewer runs by seed than it takes", c.Name, strings.Join(c.Missing, ", "))
		default:
			line = fmt.Sprintf("✗ %s: %s not found", c.Name, strings.Join(c.Missing, ", "))
		}
		missing = append(missing, line)
	}
	if len(j.Canaries) > 0 {
		title := fmt.Sprintf("KNOWN TO BE BROKEN: %d of %d found", len(found), len(j.Canaries))
		if len(found) == len(j.Canaries) && !s.whole {
			s.printf("%s\n\n", title)
		} else {
			s.section(title, append(missing, found...))
		}
	}
	var others []string
	for _, f := range j.Known {
		if !f.Stated {
			others = append(others, f.text())
		}
	}
	s.section("OTHER FINDINGS IN WHAT IS KNOWN TO BE BROKEN", others)
	s.deaths("PROCESS FINDINGS IN WHAT IS KNOWN TO BE BROKEN", j.KnownDeaths)
}

// explored writes a line for each target.
func (s *summary) explored() {
	targets := slices.Clone(s.night.Targets)
	s.printf("EXPLORED\n")
	w := tabwriter.NewWriter(s.w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "  target\truns\tby seed\tCPU\tfindings\tend states\tnew in the last half\t\n") // Flush has the error
	total := &NightTarget{}
	var runs, seeds int
	for i, t := range targets {
		runs += t.Part.Tally.Executions
		seeds += t.Seeds()
		total.CPU += t.CPU
		if !s.whole && i >= maxLines {
			continue
		}
		states, late := t.states()
		swept := ""
		if !t.Swept && len(s.night.Has) == s.night.Shards {
			swept = "not swept to the end"
		}
		_, _ = fmt.Fprintf(w, "  %s\t%d\t%d\t%s\t%d\t%d\t%d\t%s\n", t.Name, t.Part.Tally.Executions, t.Seeds(),
			t.CPU.Round(10*time.Millisecond), t.findingCount(), states, late, swept)
	}
	_, _ = fmt.Fprintf(w, "  all %d targets\t%d\t%d\t%s\t\t\t\t\n", len(targets), runs, seeds, total.CPU.Round(10*time.Millisecond))
	if s.err == nil {
		s.err = w.Flush()
	}
	s.printf("\n")
}

func (t *NightTarget) findingCount() int {
	if t.Part.Units == 0 {
		return 0
	}
	return len(explore.Bugs(t.Result().Findings))
}

// states counts the states that runs ended in, and those of them that only the second half of the runs by seed showed: if there are
// none, more runs are not likely to show much.
func (t *NightTarget) states() (all, late int) {
	var first, last int64
	for i := range t.Part.Novel {
		if o := t.Part.Novel[i].Origin; isBySeed(o.Strategy) {
			last = max(last, o.Seed)
		}
	}
	first = t.Part.Seed
	last = max(last, first+int64(t.Seeds())-1)
	for i := range t.Part.Novel {
		n := &t.Part.Novel[i]
		all += len(n.States)
		if isBySeed(n.Origin.Strategy) && n.Origin.Seed > first+(last-first)/2 {
			late += len(n.States)
		}
	}
	return all, late
}

// site is a call site, in whichever scenario.
type site struct {
	scenario, call string
	fault          schedule.FaultType
}

// faults writes which faults struck at which calls: all of them, or those that never did.
func (s *summary) faults() {
	counts := map[site]history.SiteResult{}
	for _, t := range s.night.Targets {
		for _, r := range t.Part.Tally.Sites {
			e := r.Site
			call := fmt.Sprintf("%s %s %s", e.Actor, e.Verb, e.Kind)
			if e.Subresource != "" {
				call += "/" + e.Subresource
			}
			scenario, _, _ := strings.Cut(t.header.Scenario, " ")
			key := site{scenario, call, r.Type}
			c := counts[key]
			c.Eligible += r.Eligible
			c.Struck += r.Struck
			counts[key] = c
		}
	}
	compare := func(a, b site) int {
		return cmp.Or(cmp.Compare(a.scenario, b.scenario), cmp.Compare(a.call, b.call), cmp.Compare(a.fault, b.fault))
	}
	keys := slices.SortedFunc(maps.Keys(counts), compare)
	var lines, never []string
	for i := 0; i < len(keys); {
		first := keys[i]
		line := []string{fmt.Sprintf("%s: %s:", first.scenario, first.call)}
		for ; i < len(keys) && keys[i].scenario == first.scenario && keys[i].call == first.call; i++ {
			c := counts[keys[i]]
			if c.Struck == 0 {
				never = append(never, fmt.Sprintf("%s: %s: %s, for which there were %d occasions", first.scenario, first.call, keys[i].fault,
					c.Eligible))
			}
			line = append(line, fmt.Sprintf("%s %d/%d", keys[i].fault, c.Struck, c.Eligible))
		}
		lines = append(lines, strings.Join(line, " "))
	}
	if s.whole {
		s.section("FAULTS: how often each struck at each call, and on how many occasions", lines)
	}
	s.section("FAULTS THAT NEVER STRUCK", never)
}

// neverExercised lists properties that no run said anything of.
func (n *Night) neverExercised() []string {
	var lines []string
	for _, t := range n.Targets {
		for _, p := range t.Part.Tally.Properties {
			switch {
			case p.Property.Type == property.Sometimes && p.Held == 0:
				lines = append(lines, fmt.Sprintf("%s: %s was never seen to hold", t.text(), p.Property.Name))
			case p.Property.Type != property.Sometimes && p.Held+p.Broken == 0 && p.Property.Rule != "":
				lines = append(lines, fmt.Sprintf("%s: %s was never looked at", t.text(), p.Property.Name))
			}
		}
	}
	return lines
}

// gaps lists what runs touched that is not modelled, with the number of targets.
func (n *Night) gaps() []string {
	counts := map[string]int{}
	for _, t := range n.Targets {
		for gap := range t.Part.Tally.Gaps {
			counts[gap]++
		}
	}
	var lines []string
	for _, gap := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%s (in %s)", gap, plural(counts[gap], "target")))
	}
	return lines
}

// leftOut lists what was not run, and why.
func (n *Night) leftOut() []string {
	lines := slices.Clone(n.Notes)
	for _, t := range n.Targets {
		for _, skipped := range t.Skipped {
			lines = append(lines, fmt.Sprintf("%s: %s", skipped.File, skipped.Why))
		}
		if t.Killed > 0 {
			lines = append(lines, fmt.Sprintf("%s: %s died of a signal, and not again when the run was repeated", t.text(),
				plural(t.Killed, "worker")))
		}
	}
	return lines
}

// verdict says what it comes to.
func (s *summary) verdict(j *Judgement) {
	for _, why := range j.Untrusted {
		s.printf("! NOT TO BE TRUSTED: %s\n", why)
	}
	n := s.night
	shards := ""
	if n.Shards > 1 {
		var has []string
		for _, k := range n.Has {
			has = append(has, fmt.Sprint(k))
		}
		shards = fmt.Sprintf(", shard %s of %d", strings.Join(has, ", "), n.Shards)
	}
	ended := ""
	if n.Interrupted {
		ended = ", interrupted: the same command goes on with it"
	}
	s.printf("%s, %s, %d known, in %s with %s%s%s\n", plural(len(j.Findings), "finding"),
		plural(len(j.Deaths), "process finding"), len(j.Known), n.Elapsed.Truncate(time.Second), plural(n.Workers, "worker"), shards, ended)
}
