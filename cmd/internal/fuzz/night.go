package fuzz

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// KindNight is the kind of the document that holds what an exploration of many scenarios came to.
const KindNight = "Night"

// Night is what an exploration of many scenarios came to, or a shard of it. Nights of the shards of one exploration merge: [Merge].
type Night struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Program is the digest of the program that explored.
	Program string `json:"program"`
	Seed    int64  `json:"seed"`
	// Runs is the number of runs by seed of each target; negative if it was a time.
	Runs int `json:"runs"`
	// Shards is the number of shards, Has those that this is of, from 1.
	Shards int   `json:"shards"`
	Has    []int `json:"has"`
	// Targets are in the order in which they were found.
	Targets []*NightTarget `json:"targets"`
	// Problems are files that are wrong, and Notes what was left out.
	Problems []string `json:"problems,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	// Interrupted says that the exploration did not come to its end.
	Interrupted bool `json:"interrupted,omitempty"`
	// Elapsed is the real time of the session that ended it, Workers how many there were in it.
	Elapsed time.Duration `json:"elapsed"`
	Workers int           `json:"workers"`
}

// NightTarget is what one target came to.
type NightTarget struct {
	*Target
	record
	// Swept says that its sweeps came to their end.
	Swept bool          `json:"swept"`
	CPU   time.Duration `json:"cpu"`
	// Part is what its units came to, and Bodies what that does not carry, with the header.
	Part   *explore.Part   `json:"part"`
	Bodies json.RawMessage `json:"bodies"`
	// Folder is where its findings are.
	Folder string `json:"folder,omitempty"`

	result *history.Result
}

// night puts together what there is.
func (s *supervisor) night(finished bool) (*Night, error) {
	n := &Night{APIVersion: corpusVersion, Kind: KindNight, Program: s.campaign.Program, Seed: s.Seed, Runs: max(s.Runs, -1),
		Shards: s.Shards, Has: []int{s.Shard}, Notes: s.catalog.notes, Interrupted: !finished, Elapsed: time.Since(s.begun), Workers: s.Workers}
	for _, err := range s.catalog.problems {
		n.Problems = append(n.Problems, err.Error())
	}
	for _, l := range s.ledgers {
		if err := s.publish(l); err != nil {
			return nil, err
		}
		t := &NightTarget{Target: l.Target, record: l.record, Swept: l.done[keySweeps], CPU: l.cpu, Part: l.part(), Folder: s.folder(l)}
		for i := range t.Part.Novel {
			t.Part.Novel[i].Schedule = nil // the corpus has them
		}
		bodies := t.Part.Bodies()
		bodies.Header = l.header
		var content bytes.Buffer
		if err := reports.EncodeResult(&content, bodies); err != nil {
			return nil, err
		}
		t.Bodies = content.Bytes()
		n.Targets = append(n.Targets, t)
	}
	return n, nil
}

// Encode writes the document.
func (n *Night) Encode(w io.Writer) error {
	content, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = w.Write(append(content, '\n'))
	return err
}

// DecodeNight reads a document.
func DecodeNight(r io.Reader) (*Night, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var about stamp
	if err := json.Unmarshal(content, &about); err != nil {
		return nil, fmt.Errorf("not the result of an exploration by 'fuzz', or more than one: %w", err)
	}
	switch {
	case about.Kind != KindNight:
		return nil, fmt.Errorf("expected a document of kind %s, as 'fuzz' writes beside its findings, found kind %q", KindNight, about.Kind)
	case about.APIVersion != corpusVersion:
		return nil, fmt.Errorf("the document is of version %q, this program reads %s", about.APIVersion, corpusVersion)
	}
	n := &Night{}
	if err := json.Unmarshal(content, n); err != nil {
		return nil, fmt.Errorf("not as 'fuzz' writes it: %w", err)
	}
	if err := n.check(); err != nil {
		return nil, fmt.Errorf("not as 'fuzz' writes it: %w", err)
	}
	for _, t := range n.Targets {
		bodies, err := reports.DecodeResult(bytes.NewReader(t.Bodies))
		if err == nil {
			err = t.Part.Attach(bodies)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		t.header = bodies.Header
	}
	return n, nil
}

// Result returns what the target came to.
func (t *NightTarget) Result() *history.Result {
	if t.result == nil {
		t.result = t.Part.Result()
		t.result.Header = t.header
	}
	return t.result
}

// Results returns what all targets came to, but for the built-in canary.
func (n *Night) Results() []*history.Result {
	var all []*history.Result
	for _, t := range n.Targets {
		if t.File != "" && t.Part.Units > 0 {
			all = append(all, t.Result())
		}
	}
	return all
}

// Merge puts the shards of one exploration together. The order of the shards makes no difference.
func Merge(nights ...*Night) (*Night, error) {
	nights = slices.Clone(nights)
	slices.SortStableFunc(nights, func(a, b *Night) int { return slices.Compare(a.Has, b.Has) })
	m := *nights[0]
	m.Targets, m.Has, m.Problems, m.Notes, m.Elapsed, m.Workers = nil, nil, nil, nil, 0, 0
	for _, n := range nights {
		switch {
		case n.Program != m.Program:
			return nil, errors.New("the shards were explored by different programs: they have come to what cannot be compared")
		case n.Seed != m.Seed || n.Shards != m.Shards || n.Runs != m.Runs:
			return nil, fmt.Errorf("shards of different explorations: seed %d, %d shards and %d runs; seed %d, %d shards and %d runs",
				m.Seed, m.Shards, m.Runs, n.Seed, n.Shards, n.Runs)
		}
		for _, shard := range n.Has {
			if slices.Contains(m.Has, shard) {
				return nil, fmt.Errorf("shard %d of %d is given twice", shard, m.Shards)
			}
			m.Has = append(m.Has, shard)
		}
		m.Problems, m.Notes = append(m.Problems, n.Problems...), append(m.Notes, n.Notes...)
		m.Interrupted = m.Interrupted || n.Interrupted
		m.Elapsed, m.Workers = max(m.Elapsed, n.Elapsed), m.Workers+n.Workers
		for _, t := range n.Targets {
			if err := m.mergeTarget(t); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(m.Has)
	slices.Sort(m.Problems)
	slices.Sort(m.Notes)
	m.Problems, m.Notes = slices.Compact(m.Problems), slices.Compact(m.Notes)
	return &m, m.encodeBodies()
}

// mergeTarget adds what a shard came to. It is an error if another shard explored something else by that name: the findings of both
// have one folder.
func (n *Night) mergeTarget(t *NightTarget) error {
	i := slices.IndexFunc(n.Targets, func(other *NightTarget) bool { return other.Name == t.Name })
	if i < 0 {
		own := *t
		n.Targets = append(n.Targets, &own)
		return nil
	}
	m := n.Targets[i]
	if m.Digest != t.Digest {
		return fmt.Errorf("%s: the shards explored different versions of it, or of its schedules: explore one version with all", t.text())
	}
	if t.File != "" { // every shard looks for the built-in canary by itself
		m.Part = explore.Merge(m.Part, t.Part)
		m.CPU += t.CPU
	}
	m.result = nil
	m.Swept = m.Swept || t.Swept
	m.Failed = cmp.Or(m.Failed, t.Failed)
	m.Killed += t.Killed
	m.Deaths = slices.SortedFunc(slices.Values(slices.Concat(m.Deaths, t.Deaths)), compareDeaths)
	m.Skipped = append(slices.Clone(m.Skipped), t.Skipped...)
	givenUp := map[string]string{}
	for _, from := range []map[string]string{m.GivenUp, t.GivenUp} {
		maps.Copy(givenUp, from)
	}
	m.GivenUp = givenUp
	return nil
}

// maxMissing is how many missing shards are named.
const maxMissing = 10

// Missing returns the shards that the night is not of, in words; of very many the first.
func (n *Night) Missing() []string {
	var missing []string
	for shard := 1; shard <= n.Shards; shard++ {
		switch {
		case slices.Contains(n.Has, shard):
		case len(missing) == maxMissing:
			return append(missing, "and others")
		default:
			missing = append(missing, fmt.Sprintf("shard %d of %d", shard, n.Shards))
		}
	}
	return missing
}

// encodeBodies encodes what parts do not carry.
func (n *Night) encodeBodies() error {
	for _, t := range n.Targets {
		bodies := t.Part.Bodies()
		bodies.Header = t.header
		var content bytes.Buffer
		if err := reports.EncodeResult(&content, bodies); err != nil {
			return err
		}
		t.Bodies = content.Bytes()
	}
	return nil
}

// Judgement says what a night means.
type Judgement struct {
	// Findings are the bugs that count: in what is not known to be broken. Known are the others.
	Findings, Known []Found
	// Deaths are runs that did something to their process, in what is not known to be broken, and KnownDeaths in the rest.
	Deaths, KnownDeaths []FoundDeath
	// Canaries are what is known to be broken, and whether it was found.
	Canaries []Canary
	// Untrusted says why the night is not to be trusted; empty if it is.
	Untrusted []string
	// Wrong are scenarios that could not be explored and the files that are wrong, Nondeterministic operators that are so, Internal
	// what we got wrong; Stale are committed schedules that fit no more.
	Wrong, Nondeterministic, Internal, Stale []string
	// Inconclusive are targets of which nothing can be said, and GivenUp parts of others.
	Inconclusive, GivenUp []string
}

// Found is a bug that was found in a target, see [explore.Bugs]: by the finding that stands for it.
type Found struct {
	*NightTarget
	*history.Finding
	// Others counts the further findings that are ways to it.
	Others int
	// Stated says, in what is known to be broken, that it is known to be so.
	Stated bool
}

// FoundDeath is a death, with the target that it is in.
type FoundDeath struct {
	*NightTarget
	Death *Death
	Count int
}

// Canary is what is known to be broken: over all entries of a scenario's matrix.
type Canary struct {
	Name string
	// Breaks is what it is known to break, and Missing what of it was not found.
	Breaks, Missing []string
	// Short says that there were fewer runs by seed than it takes; Unswept that the sweeps did not come to their end.
	Short, Unswept bool
}

// Judge says what the night means.
func (n *Night) Judge() *Judgement {
	j := &Judgement{Wrong: slices.Clone(n.Problems)}
	for _, t := range n.Targets {
		n.judgeTarget(j, t)
	}
	n.judgeCanaries(j)
	return j
}

// judgeTarget adds what there is to say of one target.
func (n *Night) judgeTarget(j *Judgement, t *NightTarget) {
	name := t.text()
	if t.Failed != nil {
		line := name + ": " + t.Failed.Text
		switch t.Failed.Kind {
		case wrongScenario:
			j.Wrong = append(j.Wrong, line)
		case nondeterministic:
			j.Nondeterministic = append(j.Nondeterministic, line)
		case deadly:
			j.GivenUp = append(j.GivenUp, line)
		default:
			j.Internal = append(j.Internal, line)
		}
	}
	for key, why := range t.GivenUp {
		j.GivenUp = append(j.GivenUp, fmt.Sprintf("%s, %s: %s", name, key, why))
	}
	slices.Sort(j.GivenUp)
	for _, c := range t.deaths() {
		found := FoundDeath{t, c.Death, c.Count}
		if t.Fails() {
			j.Deaths = append(j.Deaths, found)
		} else {
			j.KnownDeaths = append(j.KnownDeaths, found)
		}
	}
	if t.Part.Units == 0 {
		return
	}
	r := t.Result()
	for _, ways := range explore.Bugs(r.Findings) {
		found := Found{t, &r.Findings[ways[0]], len(ways) - 1, t.stated(r, ways)}
		if t.Fails() {
			j.Findings = append(j.Findings, found)
		} else {
			j.Known = append(j.Known, found)
		}
	}
	for _, replay := range r.Replays {
		if replay.Stale() {
			j.Stale = append(j.Stale, fmt.Sprintf("%s: a committed schedule fits no more: %s found no event", name,
				strings.Join(replay.Unmatched, "; ")))
		}
	}
	switch reports.Judge(r) {
	case reports.InvalidProperty:
		for _, p := range r.Coverage.Properties {
			if p.Invalid > 0 {
				j.Wrong = append(j.Wrong, fmt.Sprintf("%s: property %s cannot be evaluated: %s", name, p.Property.Name, p.Error))
			}
		}
	case reports.Inconclusive:
		if t.Fails() {
			j.Inconclusive = append(j.Inconclusive, name)
		}
	default:
	}
}

// stated reports whether what is known of the target has something that one of its findings breaks.
func (t *NightTarget) stated(r *history.Result, findings []int) bool {
	return slices.ContainsFunc(findings, func(i int) bool {
		return slices.ContainsFunc(broken(r.Findings[i].Run), func(name string) bool { return slices.Contains(t.Breaks, name) })
	})
}

// judgeCanaries says which of what is known to be broken was found.
func (n *Night) judgeCanaries(j *Judgement) {
	var keys []string
	groups := map[string][]*NightTarget{}
	for _, t := range n.Targets {
		if len(t.Breaks) == 0 {
			continue
		}
		key := filepath.ToSlash(t.File) + "\n" + strings.Join(t.header.Reconcilers, ",")
		if groups[key] == nil {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], t)
	}
	whole := len(n.Has) == n.Shards
	for _, key := range keys {
		c := newCanary(groups[key])
		j.Canaries = append(j.Canaries, c)
		switch {
		case len(c.Missing) == 0, c.Short:
		case c.Unswept && !whole: // another shard sweeps it
		case c.Unswept:
			j.Untrusted = append(j.Untrusted, fmt.Sprintf("%s: %s not found, as its sweeps have not come to their end", c.Name,
				strings.Join(c.Missing, ", ")))
		default:
			j.Untrusted = append(j.Untrusted, fmt.Sprintf("%s is known to break %s, and that was not found", c.Name,
				strings.Join(c.Missing, ", ")))
		}
	}
}

// newCanary says what was found of one thing that is known to be broken.
func newCanary(entries []*NightTarget) Canary {
	first := entries[0]
	c := Canary{Name: canaryName, Breaks: first.Breaks, Missing: slices.Clone(first.Breaks)}
	if first.File != "" {
		c.Name = fmt.Sprintf("%s (%s)", first.File, strings.Join(first.header.Reconcilers, ", "))
	}
	for _, t := range entries {
		c.Unswept = c.Unswept || !t.Swept
		c.Short = c.Short || t.Seeds() < t.Runs
		if t.Part.Units == 0 {
			continue
		}
		r := t.Result()
		for i := range r.Findings {
			names := broken(r.Findings[i].Run)
			c.Missing = slices.DeleteFunc(c.Missing, func(name string) bool { return slices.Contains(names, name) })
		}
	}
	return c
}

// Seeds counts the target's runs by seed.
func (t *NightTarget) Seeds() int {
	runs := 0
	for _, s := range t.Part.Tally.Strategies {
		if isBySeed(s.Name) {
			runs += s.Executions
		}
	}
	return runs
}
