package fuzz

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// BreaksAnnotation marks a scenario as one with a planted bug: its value names the properties and detectors that it is known to break,
// separated by commas. Such a scenario is a canary, see [Target.Breaks].
const BreaksAnnotation = "stalemate.dev/breaks"

// canaryName is the name of the built-in canary.
const canaryName = "built-in canary"

// canaryFolder is the name of its target.
const canaryFolder = "canary"

// Target is one of the things that are explored.
type Target struct {
	Subject
	// Name tells the target from the others, also as the name of a folder.
	Name string `json:"name"`
	// Digest is of all that its exploration depends on but for the program.
	Digest string `json:"digest"`
	// Breaks are the properties and detectors that it is known to break. A target with any is a canary: a night that does not find
	// each of them is not trusted.
	Breaks []string `json:"breaks,omitempty"`
	// Runs is the number of runs by seed that it takes to find them; zero if the sweeps do.
	Runs int `json:"runs,omitempty"`
	// Tolerated says that the target is no canary, but runs a reconciler that is known to be broken: what is found in it is told, and
	// does not fail the night.
	Tolerated bool `json:"tolerated,omitempty"`

	header   history.Header
	scenario *scenarios.Scenario
}

// Fails reports whether a finding in the target fails the night.
func (t *Target) Fails() bool { return len(t.Breaks) == 0 && !t.Tolerated }

// catalog is what the directories hold.
type catalog struct {
	registry    *scenarios.Registry
	reconcilers map[string]string // those to run instead, by the names of controllers
	used        map[string]bool   // which of these some scenario has
	targets     []*Target
	// problems are files that are wrong, and notes what was left out for a reason.
	problems []error
	notes    []string
}

// collect finds the targets in directories: every entry of every scenario, as its file says and in its variants, with the schedules
// that found something in it.
func collect(dirs []string, registry *scenarios.Registry, reconcilers map[string]string) (*catalog, error) {
	c := &catalog{registry: registry, reconcilers: reconcilers, used: map[string]bool{}}
	var schedules []string
	for _, dir := range dirs {
		files, err := manifests(dir)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			switch kind, err := scenarios.KindOf(file); {
			case err != nil:
				c.problems = append(c.problems, err)
			case kind == scenarios.KindSchedule:
				schedules = append(schedules, file)
			default:
				c.addScenario(file)
			}
		}
	}
	if len(c.targets) == 0 && len(c.problems) == 0 {
		return nil, fmt.Errorf("%s: no scenario in there: name directories that hold files of kind Scenario (those in folders "+
			"named testdata do not count, unless one is named itself)", strings.Join(dirs, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(reconcilers)) {
		if !c.used[name] && len(c.targets) > 0 {
			return nil, fmt.Errorf("--reconciler %s=%s: no scenario has such a controller", name, reconcilers[name])
		}
	}
	for _, file := range schedules {
		c.addSchedule(file)
	}
	c.number()
	return c, nil
}

// manifests returns the files of ours below a directory, sorted. As the go command does, it leaves folders out whose names begin with a
// dot or an underscore, and testdata, of which it looks at the schedules.
func manifests(dir string) ([]string, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such directory", dir)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s: not a directory: name the one that holds it, or explore it with 'run'", dir)
	}
	var files []string
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, file)
		switch {
		case err != nil:
			return err
		case leftOut(strings.Split(filepath.ToSlash(relative), "/")) && entry.IsDir():
			return fs.SkipDir
		case leftOut(strings.Split(filepath.ToSlash(relative), "/")), !entry.Type().IsRegular(),
			filepath.Ext(file) != ".yaml" && filepath.Ext(file) != ".yml":
			return nil
		}
		ours, err := isOurs(file)
		if ours {
			files = append(files, file)
		}
		return err
	})
	return files, err
}

// leftOut reports whether a file or folder is none to look at, by the elements of its path.
func leftOut(path []string) bool {
	for i, element := range path {
		hidden := element != "." && element[0] == '.' || element[0] == '_'
		if hidden || i > 0 && path[i-1] == "testdata" && element != "schedules" {
			return true
		}
	}
	return false
}

// isOurs reports whether a file may be a scenario or a schedule: others, such as the objects that scenarios name, lie beside them.
func isOurs(file string) (bool, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	for _, kind := range []string{scenarios.KindScenario, scenarios.KindSchedule} {
		if bytes.Contains(content, []byte("stalemate.dev/")) && bytes.Contains(content, []byte("kind: "+kind)) {
			return true, nil
		}
	}
	return false, nil
}

// addScenario adds the targets of a scenario's file.
func (c *catalog) addScenario(file string) {
	scenario, err := scenarios.Load(file, scenarios.Options{Registry: c.registry})
	if err != nil {
		c.problems = append(c.problems, err)
		return
	}
	overrides := map[string]string{}
	for _, controller := range scenario.Manifest.Spec.Controllers {
		if name, ok := c.reconcilers[controller.Name]; ok {
			overrides[controller.Name] = name
			c.used[controller.Name] = true
		}
	}
	variants := c.registry.Variants(file)
	if len(c.reconcilers) > 0 {
		variants = nil
	}
	for _, entry := range scenario.Entries() {
		c.addTarget(file, entry, overrides, variants)
		for _, v := range variants {
			c.addTarget(file, entry, v.Reconcilers, variants)
		}
	}
}

// addTarget adds one target, unless it is there.
func (c *catalog) addTarget(file string, entry *scenarios.Scenario, overrides map[string]string, variants []scenarios.Variant) {
	t := &Target{Subject: Subject{File: file, Values: entry.Values, Reconcilers: replaced(entry, overrides)}, scenario: entry}
	if c.find(&t.Subject) != nil {
		return
	}
	config, err := entry.Config(c.registry, t.Reconcilers)
	if err != nil {
		c.problems = append(c.problems, err)
		return
	}
	t.header = entry.Header(config, t.Reconcilers)
	i := slices.IndexFunc(variants, func(v scenarios.Variant) bool {
		return maps.Equal(replaced(entry, v.Reconcilers), t.Reconcilers)
	})
	annotated, problem := annotatedBreaks(entry, config)
	switch {
	case problem != nil:
		c.problems = append(c.problems, problem)
		return
	case i >= 0:
		t.Breaks, t.Runs = variants[i].Breaks, variants[i].Runs
	case len(overrides) == 0:
		t.Breaks = annotated
	}
	if i < 0 && len(t.Breaks) == 0 && len(c.reconcilers) == 0 { // who asks for it wants to know
		t.Tolerated = c.knownBroken(t)
	}
	c.targets = append(c.targets, t)
}

// replaced returns the reconcilers that differ from the scenario's own.
func replaced(s *scenarios.Scenario, overrides map[string]string) map[string]string {
	differ := map[string]string{}
	for _, controller := range s.Manifest.Spec.Controllers {
		if name := overrides[controller.Name]; name != "" && name != controller.Reconciler {
			differ[controller.Name] = name
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return differ
}

// find returns the target with a subject.
func (c *catalog) find(s *Subject) *Target {
	for _, t := range c.targets {
		if t.File == s.File && maps.Equal(t.Values, s.Values) && maps.Equal(t.Reconcilers, s.Reconcilers) {
			return t
		}
	}
	return nil
}

// knownBroken reports whether a reconciler of a target breaks something in some registered variant of whatever scenario.
func (c *catalog) knownBroken(t *Target) bool {
	for _, v := range c.registry.AllVariants() {
		for _, name := range v.Reconcilers {
			runs := func(pair string) bool { return strings.HasSuffix(pair, "="+name) }
			if len(v.Breaks) > 0 && slices.ContainsFunc(t.header.Reconcilers, runs) {
				return true
			}
		}
	}
	return false
}

// annotatedBreaks returns what a scenario says that it breaks.
func annotatedBreaks(s *scenarios.Scenario, config *sim.Config) ([]string, error) {
	text, ok := s.Manifest.Metadata.Annotations[BreaksAnnotation]
	if !ok {
		return nil, nil
	}
	known := []string{panicked}
	for _, definition := range append(config.Properties.Definitions(), config.Detectors.Definitions()...) {
		known = append(known, definition.Name)
	}
	var breaks []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s: metadata.annotations[%s]: %q is no property or detector of the scenario; there is %s",
				s.Path, BreaksAnnotation, name, strings.Join(known, ", "))
		}
		breaks = append(breaks, name)
	}
	return breaks, nil
}

// addSchedule adds a schedule that was committed to the target it is of.
func (c *catalog) addSchedule(file string) {
	s, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: c.registry})
	if err != nil {
		c.problems = append(c.problems, err)
		return
	}
	reconcilers := replaced(s.Scenario, s.Replaced(c.reconcilers))
	var of *Target
	for _, t := range c.targets {
		if sameFile(t.File, s.Scenario.Path) && maps.Equal(t.Values, s.Scenario.Values) && maps.Equal(t.Reconcilers, reconcilers) {
			of = t
		}
	}
	switch why := unfit(s); {
	case of == nil:
		c.notes = append(c.notes, file+": not run: its scenario, with its reconcilers, is not among those that are explored")
	case len(of.Breaks) > 0: // a canary is to be found without being told how
	case why != "":
		c.notes = append(c.notes, file+": not run: "+why)
	default:
		of.Schedules = append(of.Schedules, file)
	}
}

// unfit says why a schedule cannot be run in an exploration of its scenario; empty if it can.
func unfit(s *scenarios.Schedule) string {
	if len(s.Manifest.Spec.Properties)+len(s.Manifest.Spec.Variables) > 0 {
		return "it has properties of its own: replay it"
	}
	if slices.ContainsFunc(s.Spec.Faults, func(f schedule.Fault) bool { return f.Type == schedule.Upgrade }) {
		return "it upgrades the operator: replay it"
	}
	return ""
}

// sameFile reports whether two paths are of one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// number gives the targets their names and digests.
func (c *catalog) number() {
	taken := map[string]bool{canaryFolder: true}
	for _, t := range c.targets {
		words := []string{t.header.Scenario}
		for _, pair := range t.header.Reconcilers {
			words = append(words, filepath.Base(pair))
		}
		name := reports.FileName(strings.Join(words, " "))
		t.Name = name
		for n := 2; taken[t.Name]; n++ {
			t.Name = fmt.Sprintf("%s-%d", name, n)
		}
		taken[t.Name] = true
		sum := sha256.New()
		_, _ = fmt.Fprintln(sum, t.scenario.Digest, t.Subject.words()) // a hash takes everything
		for _, file := range t.Schedules {
			content, err := os.ReadFile(file)
			if err != nil {
				c.problems = append(c.problems, err)
			}
			_, _ = sum.Write(content)
		}
		t.Digest = hex.EncodeToString(sum.Sum(nil))[:16]
	}
}

// builtIn returns the built-in canary.
func builtIn() (*Target, error) {
	t := &Target{Name: canaryFolder, Breaks: []string{canaryBreaks}}
	scenario, config, err := t.Subject.load(nil)
	if err != nil {
		return nil, fmt.Errorf("the %s: %w", canaryName, err)
	}
	t.scenario, t.header, t.Digest = scenario, scenario.Header(config, nil), scenario.Digest[:16]
	return t, nil
}

// panicked stands for a reconciler that panics, where the names of properties stand.
const panicked = "panic"

// broken returns what a run broke: the names of properties and detectors, and "panic".
func broken(h *history.History) []string {
	var names []string
	if h.Outcome == history.Panicked {
		names = append(names, panicked)
	}
	for _, verdict := range h.Broken() {
		names = append(names, verdict.Property.Name)
	}
	return names
}
