package schedule_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func TestEventString(t *testing.T) {
	tests := []struct {
		event        schedule.Event
		text, object string
	}{
		{schedule.Event{Actor: "operator", Incarnation: 1, Verb: schedule.Start, Occurrence: 1}, "operator Start #1", ""},
		{schedule.Event{Actor: "operator", Incarnation: 2, Verb: schedule.Start}, "operator[2] Start", ""},
		{schedule.Event{Actor: "operator", Key: "default/a", Verb: schedule.Dequeue, Occurrence: 3},
			"operator(default/a) Dequeue #3", ""},
		{schedule.Event{Actor: "operator", Controller: "web", Key: "default/a", Verb: schedule.Update, Kind: "StatefulSet",
			Namespace: "default", Name: "web", Subresource: "status", Occurrence: 2},
			"operator/web(default/a) Update StatefulSet/status default/web #2", "StatefulSet/status default/web"},
		{schedule.Event{Actor: "user", Verb: schedule.Delete, Kind: "Node", Name: "n1", Occurrence: 1},
			"user Delete Node n1 #1", "Node n1"},
		{schedule.Event{Actor: "operator", Verb: schedule.List, Kind: "Pod", Namespace: "default", Occurrence: 2},
			"operator List Pod default/ #2", "Pod"},
		{schedule.Event{Actor: "operator", Verb: schedule.List, Kind: "Pod"}, "operator List Pod", "Pod"},
		{schedule.Event{Actor: "operator", Verb: schedule.Update, Kind: "StatefulSet", Namespace: "default", Name: "web",
			Return: true, Occurrence: 2}, "operator return of Update StatefulSet default/web #2", "StatefulSet default/web"},
		{schedule.Event{Actor: "user", Key: "step 1", Verb: schedule.Dequeue}, "user(step 1) Dequeue", ""},
		{schedule.Event{Actor: "user", Verb: schedule.Timer, Name: "step 1", Occurrence: 1}, "user Timer step 1 #1", "step 1"},
		{schedule.Event{Actor: "op", Controller: "web/Pod", Verb: schedule.Handle, Kind: "Widget.example.com", Name: "a"},
			"op/web/Pod Handle Widget.example.com a", "Widget.example.com a"},
		{schedule.Event{Actor: "user", Verb: schedule.Delete, Kind: "ClusterRole", Name: "system:a"},
			"user Delete ClusterRole system:a", "ClusterRole system:a"},
		// What would be taken for something else is escaped.
		{schedule.Event{Actor: "a/b", Verb: schedule.Get, Name: "x"}, "a%2Fb Get - x", "x"},
		{schedule.Event{Actor: "gc", Verb: schedule.Timer, Name: "tick #2"}, "gc Timer tick %232", "tick #2"},
		{schedule.Event{Actor: "gc", Verb: schedule.Timer, Name: "on time"}, "gc Timer %6Fn time", "on time"},
		{schedule.Event{Actor: "gc", Verb: schedule.Timer, Kind: "Pod", Name: "a"}, "gc Timer on Pod a", "Pod a"},
		{schedule.Event{Actor: "gc", Verb: schedule.Get, Kind: "-", Name: "a/100%\n"}, "gc Get %2D a%2F100%25%0A", "- a/100%\n"},
		{schedule.Event{Actor: "gc", Verb: schedule.Timer, Name: "tick"}, "gc Timer tick", "tick"},
	}
	for _, test := range tests {
		if got := test.event.String(); got != test.text {
			t.Errorf("event is %q, want %q", got, test.text)
		}
		if got := test.event.Object(); got != test.object {
			t.Errorf("object is %q, want %q", got, test.object)
		}
	}
}

// TestVerbs checks that every verb is what the API makes of it.
func TestVerbs(t *testing.T) {
	tests := []struct {
		verbs                []schedule.Verb
		write, read, request bool
	}{
		{[]schedule.Verb{schedule.Create, schedule.Update, schedule.Patch, schedule.Delete, schedule.DeleteCollection},
			true, false, true},
		{[]schedule.Verb{schedule.Get, schedule.List}, false, true, true},
		{[]schedule.Verb{schedule.Watch}, false, false, true},
		{[]schedule.Verb{schedule.CachedGet, schedule.CachedList}, false, true, false},
		{[]schedule.Verb{schedule.Start, schedule.Sync, schedule.Deliver, schedule.Handle, schedule.Dequeue, schedule.Timer,
			schedule.Wake, schedule.Advance}, false, false, false},
	}
	for _, test := range tests {
		for _, v := range test.verbs {
			if v.IsWrite() != test.write || v.IsRead() != test.read || v.IsRequest() != test.request {
				t.Errorf("%s: write %v, read %v, request %v; want %v, %v, %v",
					v, v.IsWrite(), v.IsRead(), v.IsRequest(), test.write, test.read, test.request)
			}
		}
	}
}

// TestCompare checks that Compare is an order in which every field counts.
func TestCompare(t *testing.T) {
	events := []schedule.Event{{}}
	fields := reflect.TypeFor[schedule.Event]()
	for i := fields.NumField() - 1; i >= 0; i-- { // the last field counts least
		var e schedule.Event
		switch f := reflect.ValueOf(&e).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("a")
		case reflect.Int:
			f.SetInt(1)
		case reflect.Bool:
			f.SetBool(true)
		default:
			t.Fatalf("field %s has a type that this test does not know", fields.Field(i).Name)
		}
		events = append(events, e)
	}
	for i, a := range events {
		for j, b := range events {
			if got := schedule.Compare(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("Compare(%+v, %+v) is %d, want the sign of %d", a, b, got, i-j)
			}
		}
	}
	if !slices.IsSortedFunc(events, schedule.Compare) {
		t.Error("the events are not in order")
	}
}

func TestSelectorString(t *testing.T) {
	scale := "scale"
	for want, s := range map[string]schedule.Selector{
		"any actor any verb":         {},
		"any actor any verb web":     {Name: "web"},
		"kcm any verb Pod default/":  {Actor: "kcm", Kind: "Pod", Namespace: "default"},
		"user Timer step 1":          {Actor: "user", Verbs: []schedule.Verb{schedule.Timer}, Name: "step 1"},
		"operator return of Get Pod": {Actor: "operator", Verbs: []schedule.Verb{schedule.Get}, Kind: "Pod", Return: true},
		"operator Update|Patch StatefulSet/scale default/web #2": {Actor: "operator",
			Verbs: []schedule.Verb{schedule.Update, schedule.Patch}, Kind: "StatefulSet", Subresource: &scale,
			Namespace: "default", Name: "web", Occurrence: 2},
	} {
		if got := s.String(); got != want {
			t.Errorf("selector is %q, want %q", got, want)
		}
	}
}

func TestSelector(t *testing.T) {
	event := schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Update, Kind: "StatefulSet",
		Namespace: "default", Name: "web", Subresource: "status", Occurrence: 2}
	status, scale, main := "status", "scale", ""
	tests := []struct {
		selector schedule.Selector
		want     bool
	}{
		{schedule.Selector{}, true},
		{schedule.Selector{Actor: "operator"}, true},
		{schedule.Selector{Actor: "kcm"}, false},
		{schedule.Selector{Verbs: []schedule.Verb{schedule.Patch, schedule.Update}}, true},
		{schedule.Selector{Verbs: []schedule.Verb{schedule.Patch}}, false},
		{schedule.Selector{Kind: "StatefulSet"}, true},
		{schedule.Selector{Kind: "Pod"}, false},
		{schedule.Selector{Namespace: "default"}, true},
		{schedule.Selector{Namespace: "other"}, false},
		{schedule.Selector{Name: "web"}, true},
		{schedule.Selector{Name: "db"}, false},
		{schedule.Selector{Subresource: &status}, true},
		{schedule.Selector{Subresource: &scale}, false},
		{schedule.Selector{Subresource: &main}, false},
		{schedule.Selector{Occurrence: 7}, true}, // the caller counts
		{schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Update}, Kind: "StatefulSet", Namespace: "default",
			Name: "web", Subresource: &status}, true},
		{schedule.Selector{Actor: "operator", Kind: "Pod"}, false},
	}
	for _, test := range tests {
		if got := test.selector.Matches(event); got != test.want {
			t.Errorf("%+v matches %s: %v, want %v", test.selector, event, got, test.want)
		}
	}
	event.Subresource = ""
	if !(&schedule.Selector{Subresource: &main}).Matches(event) {
		t.Errorf("the main resource does not match %s", event)
	}
}

func TestCounter(t *testing.T) {
	get := schedule.Event{Actor: "operator", Verb: schedule.Get, Kind: "Pod", Name: "a"}
	update := schedule.Event{Actor: "operator", Verb: schedule.Update, Kind: "Pod", Name: "b"}
	second := schedule.Counter{Selector: schedule.Selector{Verbs: []schedule.Verb{schedule.Update}, Occurrence: 2}}
	all := schedule.Counter{Selector: schedule.Selector{Kind: "Pod"}}
	wantSecond := []bool{false, false, false, true, false}
	for i, e := range []schedule.Event{get, update, get, update, update} {
		e.Occurrence = 1 // of its name: the counter keeps its own count
		if got := second.Match(e); got != wantSecond[i] {
			t.Errorf("event %d is the second update: %v, want %v", i, got, wantSecond[i])
		}
		if !all.Match(e) {
			t.Errorf("event %d is not matched without an occurrence", i)
		}
	}
}

func ExampleConstraint() {
	c := schedule.Constraint{
		Event: schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/web", Verb: schedule.Update, Kind: "StatefulSet",
			Namespace: "default", Name: "web", Occurrence: 1},
		Waits: schedule.Event{Actor: "kcm", Key: "default/web", Verb: schedule.Update, Kind: "StatefulSet",
			Namespace: "default", Name: "web", Subresource: "status", Occurrence: 2},
	}
	fmt.Println(c)
	// Output: operator(default/web) Update StatefulSet default/web #1 waits for kcm(default/web) Update StatefulSet/status default/web #2
}

func ExampleCounter() {
	second := schedule.Counter{Selector: schedule.Selector{Verbs: []schedule.Verb{schedule.Delete}, Kind: "Pod", Occurrence: 2}}
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		event := schedule.Event{Actor: "kcm", Verb: schedule.Delete, Kind: "Pod", Namespace: "default", Name: name}
		fmt.Println(event, second.Match(event))
	}
	// Output:
	// kcm Delete Pod default/web-0 false
	// kcm Delete Pod default/web-1 true
	// kcm Delete Pod default/web-2 false
}
