package conformance

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/internal/recorded"
)

// duel plays sequences against both servers.
type duel struct {
	real   *server
	kinds  *apiserver.Kinds
	known  []*exception
	played atomic.Int64 // sequences, each of which has a namespace of its own
	made   atomic.Int64 // requests
	panics atomic.Int64 // of the real server
}

// finding is where the servers part.
type finding struct {
	seed      uint64
	namespace string
	steps     []step // the last one is where they part
	*difference
	signature string // equal for findings of one kind
	known     *exception
	exchanges []recorded.Step // with the real server
}

// exception is a difference that is known.
type exception struct {
	// Match is a regular expression for what findings of its kind say, in one line: see [finding.line].
	Match string
	// Why says what the difference is, and why it stays.
	Why string

	match *regexp.Regexp
	hits  atomic.Int64
}

// play plays a sequence and returns the first difference, nil for none.
func (d *duel) play(ctx context.Context, seed uint64, steps []step) (*finding, error) {
	c := &recorded.Case{Name: fmt.Sprintf("r%d-%d", seed, d.played.Add(1))}
	tracks := seed%2 == 0
	simulated := recorded.NewSimulated(d.kinds, time.Now)
	if err := simulated.Prepare(ctx, c); err != nil {
		return nil, err
	}
	if tracks {
		simulated.TrackManagedFields()
	}
	if err := d.real.Prepare(ctx, c); err != nil {
		return nil, err
	}
	ours := newSide(simulated, "http://server.invalid", c.Namespace(), tracks)
	real := newSide(d.real, d.real.host, c.Namespace(), tracks)
	m := newMeanings()
	var exchanges []recorded.Step
	for i, st := range steps {
		d.made.Add(1)
		request, answer, err := real.send(ctx, st)
		if err != nil && strings.Contains(err.Error(), "INTERNAL_ERROR") {
			d.panics.Add(1) // there is nothing to compare with
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the real server: %w", err)
		}
		_, other, err := ours.send(ctx, st)
		if err != nil {
			return nil, fmt.Errorf("ours: %s: %w", st, err)
		}
		exchanges = append(exchanges, recorded.Step{Request: request, Answer: answer})
		if !tracks {
			forgetManagers(answer.Body, answer.Events)
			forgetManagers(other.Body, other.Events)
		}
		found := m.compareAnswers(answer, other)
		if found == nil {
			if err := m.ordered(); err != nil {
				found = differ("order of revisions", err, "")
			}
		}
		if found != nil {
			f := &finding{seed: seed, namespace: c.Namespace(), steps: steps[:i+1], difference: found, exchanges: exchanges}
			f.signature = st.kind() + ": " + found.at
			f.known = d.exceptionFor(f)
			return f, nil
		}
	}
	return nil, nil
}

// forgetManagers drops what a server that does not keep it does not say.
func forgetManagers(values ...any) {
	for _, value := range values {
		switch value := value.(type) {
		case tree:
			delete(value, "managedFields")
			for _, inner := range value {
				forgetManagers(inner)
			}
		case []any:
			forgetManagers(value...)
		}
	}
}

// kind says what kind of request a step is.
func (s step) kind() string {
	path := strings.Replace(s.Path, "/namespaces/$NS", "", 1)
	parts := strings.Split(strings.Trim(path, "/"), "/")
	resource, rest := 2, parts
	if parts[0] == "apis" {
		resource = 3
	}
	kind := s.Verb
	if s.ContentType != "" {
		kind += " " + strings.TrimSuffix(strings.TrimPrefix(s.ContentType, "application/"), "+json")
	}
	kind += " " + strings.Join(rest[:min(resource+1, len(rest))], "/")
	if len(rest) > resource+2 {
		kind += "/" + rest[resource+2]
	}
	return kind
}

// line is what exceptions are matched with.
func (f *finding) line() string {
	return strings.Join([]string{f.signature, "real " + f.real, "ours " + f.ours}, " | ")
}

func (d *duel) exceptionFor(f *finding) *exception {
	line := strings.ReplaceAll(f.line(), "\n", " ")
	for _, e := range d.known {
		if e.match.MatchString(line) {
			e.hits.Add(1)
			return e
		}
	}
	return nil
}

// again plays a sequence once more and returns the finding if it is of the same kind.
func (d *duel) again(ctx context.Context, seed uint64, steps []step, signature string) *finding {
	f, err := d.play(ctx, seed, steps)
	if err != nil || f == nil || f.signature != signature || f.known != nil {
		return nil
	}
	return f
}

// steady reports whether a finding shows each time: others that write to the same server, and caches that lag, can make one that
// does not.
func (d *duel) steady(ctx context.Context, f *finding) bool {
	for range 3 {
		if d.again(ctx, f.seed, f.steps, f.signature) == nil {
			return false
		}
	}
	return true
}

// shrink leaves out what is not needed to show the difference: requests first, then parts of their bodies.
func (d *duel) shrink(ctx context.Context, f *finding) *finding {
	tries := 0
	try := func(steps []step) bool {
		if tries++; tries > 400 {
			return false
		}
		smaller := d.again(ctx, f.seed, steps, f.signature)
		if smaller != nil {
			f = smaller
		}
		return smaller != nil
	}
	for size := len(f.steps) / 2; size > 0; size /= 2 {
		for from := 0; from < len(f.steps)-1; {
			to := min(from+size, len(f.steps)-1)
			if !try(append(append([]step{}, f.steps[:from]...), f.steps[to:]...)) {
				from = to
			}
		}
	}
	for i := 0; i < len(f.steps); i++ {
		for _, path := range paths(f.steps[i].Body, nil) {
			steps := append([]step{}, f.steps...)
			body := tree{}
			if copyInto(&body, steps[i].Body) != nil || !cut(body, path) {
				continue
			}
			steps[i].Body = body
			try(steps)
		}
		for name := range f.steps[i].Query {
			if name == "watch" {
				continue
			}
			steps := append([]step{}, f.steps...)
			query := map[string][]string{}
			for other, values := range steps[i].Query {
				if other != name {
					query[other] = values
				}
			}
			steps[i].Query = query
			try(steps)
		}
	}
	return f
}

// paths returns the fields of a body, outer ones first.
func paths(body any, prefix []string) [][]string {
	obj, ok := body.(tree)
	if !ok || len(prefix) > 4 {
		return nil
	}
	var all [][]string
	for name, value := range obj {
		path := append(append([]string{}, prefix...), name)
		if name != "apiVersion" && name != "kind" && strings.Join(path, ".") != "metadata.name" {
			all = append(all, path)
		}
		all = append(all, paths(value, path)...)
	}
	return all
}

// cut takes a field out of a body and reports whether it was there.
func cut(obj tree, path []string) bool {
	for _, name := range path[:len(path)-1] {
		inner, ok := obj[name].(tree)
		if !ok {
			return false
		}
		obj = inner
	}
	_, ok := obj[path[len(path)-1]]
	delete(obj, path[len(path)-1])
	return ok
}
