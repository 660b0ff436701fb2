package scenarios

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// Header returns what reports say of the scenario as it was configured, with reconcilers in place of its own by the names of
// controllers.
func (s *Scenario) Header(config *sim.Config, reconcilers map[string]string) history.Header {
	h := history.Header{Scenario: s.Name, Path: s.Path, Variables: config.Properties.Variables(), Reactors: len(config.Reactors)}
	if s.Entry != "" {
		h.Scenario += " (" + s.Entry + ")"
	}
	for _, c := range s.Manifest.Spec.Controllers {
		h.Reconcilers = append(h.Reconcilers, c.Name+"="+cmp.Or(reconcilers[c.Name], c.Reconciler))
	}
	for _, r := range s.Manifest.Spec.Racers {
		h.Racers = append(h.Racers, fmt.Sprintf("%s=%s", r.Name, r.Type))
	}
	return h
}

// EncodeSchedule writes a schedule of the scenario for a file at path, as the function [EncodeSchedule] does. What the file says
// of the scenario is filled in: its path as it is seen from there, and its entry of the matrix.
func (s *Scenario) EncodeSchedule(path string, f ScheduleFile) ([]byte, error) {
	relative, err := relativePath(filepath.Dir(path), s.Path)
	if err != nil {
		return nil, fmt.Errorf("schedule %s cannot name its scenario: %w", f.Name, err)
	}
	f.Scenario, f.Matrix = relative, s.Values
	return EncodeSchedule(f)
}

// relativePath returns the path of a file relative to a folder, with slashes and, as a loader takes it, without symbolic links.
// The folder need not be there yet.
func relativePath(folder, file string) (string, error) {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(folder); err == nil {
		folder = resolved
	}
	if file, err = filepath.Abs(file); err != nil {
		return "", err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", err
	}
	relative, err := filepath.Rel(folder, file)
	return filepath.ToSlash(relative), err
}
