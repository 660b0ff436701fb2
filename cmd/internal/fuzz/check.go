package fuzz

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// folderName is what names of targets are like, see [catalog.number].
var folderName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// check reports what is wrong in a night that was read: what no exploration writes.
func (n *Night) check() error {
	switch {
	case n.Shards < 1 || n.Shards > maxShards:
		return fmt.Errorf("shards: %d: want 1 to %d", n.Shards, maxShards)
	case len(n.Has) == 0:
		return errors.New("has: it is of no shard")
	case n.Elapsed < 0 || n.Workers < 0:
		return errors.New("elapsed, workers: want none below zero")
	}
	for i, shard := range n.Has {
		if shard < 1 || shard > n.Shards || slices.Contains(n.Has[:i], shard) {
			return fmt.Errorf("has: shard %d: want each of 1 to %d once", shard, n.Shards)
		}
	}
	names := map[string]bool{}
	for i, t := range n.Targets {
		if t == nil || t.Target == nil || t.Part == nil {
			return fmt.Errorf("targets[%d]: it lacks its part", i)
		}
		if !folderName.MatchString(t.Name) || names[t.Name] {
			return fmt.Errorf("targets[%d]: name %.80q: want one that is a folder's, and no other target's", i, t.Name)
		}
		names[t.Name] = true
		if err := t.check(); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return nil
}

// check reports what is wrong in what a target came to, but for its part.
func (t *NightTarget) check() error {
	if t.CPU < 0 || t.Runs < 0 {
		return errors.New("cpu, runs: want none below zero")
	}
	return t.record.check()
}

// check reports what is wrong in a record that was read.
func (r *record) check() error {
	if r.Killed < 0 {
		return errors.New("killed: want none below zero")
	}
	if r.Failed != nil && !slices.Contains([]failureKind{wrongScenario, nondeterministic, internal, deadly}, r.Failed.Kind) {
		return fmt.Errorf("failed: there is no kind %.80q", r.Failed.Kind)
	}
	if slices.Contains(r.Skipped, nil) {
		return errors.New("skipped: an entry is empty")
	}
	for i, d := range r.Deaths {
		if d == nil || !slices.Contains([]DeathKind{Panic, Exit, Hang, Memory, Leak, Killed}, d.Kind) {
			return fmt.Errorf("deaths[%d]: there is no such kind of them", i)
		}
	}
	return nil
}
