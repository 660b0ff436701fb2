package schedule

import (
	"cmp"
	"slices"
	"strings"
)

// Selector chooses events. It is the one selector of scenarios and schedules: fault rules, script triggers, property
// matches and ordering constraints all use it. An empty field matches everything.
type Selector struct {
	Actor string
	// Incarnation chooses one start of a process, Controller one of its controllers, and Key one reconcile key.
	Incarnation int
	Controller  string
	Key         string
	Verbs       []Verb
	Kind        string
	Namespace   string
	Name        string
	// Subresource selects requests to that subresource; nil matches any, a pointer to "" the main resource only.
	Subresource *string
	// Return chooses the way back of responses, which nothing else matches.
	Return bool
	// Occurrence, from 1, chooses the n-th of the events that match the other fields; zero chooses all of them. It is
	// the caller who counts, see [Counter].
	Occurrence int
}

// Matches reports whether the event matches all fields but Occurrence.
func (s *Selector) Matches(e Event) bool {
	return (s.Actor == "" || s.Actor == e.Actor) &&
		(s.Incarnation == 0 || s.Incarnation == e.Incarnation) &&
		(s.Controller == "" || s.Controller == e.Controller) &&
		(s.Key == "" || s.Key == e.Key) &&
		s.Return == e.Return &&
		(len(s.Verbs) == 0 || slices.Contains(s.Verbs, e.Verb)) &&
		(s.Kind == "" || s.Kind == e.Kind) &&
		(s.Namespace == "" || s.Namespace == e.Namespace) &&
		(s.Name == "" || s.Name == e.Name) &&
		(s.Subresource == nil || *s.Subresource == e.Subresource)
}

// Counter applies a selector to the events of one run in their order, and knows which occurrence each is.
type Counter struct {
	Selector Selector
	seen     int
}

// Match reports whether the selector chooses the event, counting it if it matches.
func (c *Counter) Match(e Event) bool {
	if !c.Selector.Matches(e) {
		return false
	}
	c.seen++
	return c.Selector.Occurrence == 0 || c.Selector.Occurrence == c.seen
}

// String returns the selector on one line, like the events it chooses: "operator Update|Patch StatefulSet default/web #2".
func (s *Selector) String() string {
	names := make([]string, len(s.Verbs))
	for i, v := range s.Verbs {
		names[i] = string(v)
	}
	e := Event{
		Incarnation: s.Incarnation, Controller: s.Controller, Key: s.Key,
		Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, Return: s.Return, Occurrence: s.Occurrence,
	}
	if s.Subresource != nil {
		e.Subresource = *s.Subresource
	}
	object := e.Object()
	if s.Namespace != "" && s.Name == "" {
		object = strings.TrimSpace(object + " " + s.Namespace + "/")
	}
	return e.text(cmp.Or(s.Actor, "any actor"), cmp.Or(strings.Join(names, "|"), "any verb"), object)
}
