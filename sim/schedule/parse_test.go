package schedule_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var allVerbs = []schedule.Verb{
	schedule.Get, schedule.List, schedule.Watch, schedule.Create, schedule.Update, schedule.Patch, schedule.Delete,
	schedule.DeleteCollection, schedule.CachedGet, schedule.CachedList, schedule.Start, schedule.Sync, schedule.Deliver,
	schedule.Handle, schedule.Dequeue, schedule.Timer, schedule.Wake, schedule.Advance,
}

// randomEvent returns an event of fields that are likely to be taken for something else.
func randomEvent(random *rand.Rand) schedule.Event {
	pieces := []string{"a", "web-0", "default", " ", "/", "#", "#1", "(", ")", "[", "[2]", "]", "%", "%2F", "-", "on ", "return of ",
		"Update", ".", "\n", "ü", ""}
	field := func() string {
		var b strings.Builder
		for range random.IntN(4) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	incarnation := random.IntN(3)
	if incarnation == 1 {
		incarnation = 0 // is not written
	}
	return schedule.Event{
		Actor: "a" + field(), Incarnation: incarnation, Controller: field(), Key: field(),
		Verb: allVerbs[random.IntN(len(allVerbs))], Kind: field(), Namespace: field(), Name: field(), Subresource: field(),
		Return: random.IntN(2) == 0, Occurrence: random.IntN(3),
	}
}

// TestParseEventInverts checks that every event is read as it was written, so that no two have one name.
func TestParseEventInverts(t *testing.T) {
	for seed := range uint64(20000) {
		e := randomEvent(rand.New(rand.NewPCG(seed, 0)))
		got, err := schedule.ParseEvent(e.String())
		if err != nil {
			t.Fatalf("%+v is written %q, which is refused: %v", e, e, err)
		}
		if got != e {
			t.Fatalf("%+v is written %q, which is read as %+v", e, e, got)
		}
	}
}

func TestParseEventErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", `event "": there is no verb`},
		{"operator", "there is no verb"},
		{" Update Pod a", "there is no actor"},
		{"operator  Update Pod a", `unknown verb ""`},
		{"operator Updte Pod a", `unknown verb "Updte": use one of [Get List Watch`},
		{"operator return of Pod a", `unknown verb "Pod"`},
		{"operator[0] Start", `incarnation: "0" is no number from 1`},
		{"operator[2 Start", `incarnation: "2 Start" is no number from 1`},
		{"operator[2]x Start", "no blank follows the actor"},
		{"operator/ Update Pod a", "no name of a controller follows the slash"},
		{"operator/web", "no name of a controller follows the slash after the actor, or no verb"},
		{"operator(default/a Update Pod a", "no key in closed parentheses"},
		{"operator() Update Pod a", "no key in closed parentheses"},
		{"operator Update Pod a #02", `occurrence: "02" is no number from 1`},
		{"operator Update Pod a #0", `occurrence: "0" is no number from 1`},
		{"operator Update Pod a #1 #2", "one occurrence at the end"},
		{"operator Update ", "one object may follow the verb"},
		{"operator Update Pod  a/%", "name: \"%\" is cut short"},
		{"operator Update Pod ", "kind and name are to be separated by one blank"},
		{"operator Update Pod /a", "namespace: there is none before the slash"},
		{"operator%zz Update Pod a", `actor: "%zz" is no escape`},
		{"gc Timer 100%", `name: "%" is cut short: a percent sign itself is written %25`},
	}
	for _, test := range tests {
		if e, err := schedule.ParseEvent(test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q is read as %+v with error %v, want %q", test.text, e, err, test.want)
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, text := range []string{
		"operator[2]/web(default/a) Update StatefulSet/status default/web #2", "operator return of Update Pod a",
		"gc Timer tick", "operator List Pod default/", "a Get - x", "a Timer on - x/y", "a%2Fb Get %2D", "a[1] Start",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := schedule.ParseEvent(text)
		if err != nil {
			return
		}
		again, err := schedule.ParseEvent(e.String())
		if err != nil || again != e {
			t.Errorf("%q is read as %+v, which is written %q and read as %+v, %v", text, e, e, again, err)
		}
	})
}
