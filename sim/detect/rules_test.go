package detect

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// told is a run that is written down step by step, for rules that no small operator shows.
type told struct {
	Run
	revision int64
}

func tell() *told {
	server := apiserver.NewServer(apiserver.NewKinds(apiserver.V136), func() time.Time { return time.Unix(0, 0) })
	h := &history.History{Outcome: history.Terminal}
	return &told{Run: Run{History: h, Server: server, Story: map[string]bool{"user": true}}}
}

// step adds a step: an operator's in a pass over default/app, or somebody else's. A write is a commit.
func (d *told) step(actor string, attempt int, verb schedule.Verb, kind string, before, after apiserver.Object) *history.Record {
	obj := after
	if obj == nil {
		obj = before
	}
	r := history.Record{Attempt: attempt, Before: before, After: after, Code: 200, Cause: -1, Thread: 1,
		At:    time.Duration(len(d.History.Records)),
		Event: schedule.Event{Actor: actor, Verb: verb, Kind: kind, Namespace: "default", Name: obj.GetName()}}
	if strings.HasPrefix(actor, "operator") {
		r.Event.Incarnation, r.Event.Key = 1, "default/app"
	} else {
		r.Thread = 2
	}
	if verb.IsWrite() {
		d.revision++
		r.Committed = d.revision
	}
	d.History.Records = append(d.History.Records, r)
	return &d.History.Records[len(d.History.Records)-1]
}

// thing is a ConfigMap in some version.
func thing(name, uid string, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}}
	for _, f := range change {
		f(c)
	}
	return c
}

func saying(value string) func(*corev1.ConfigMap) {
	return func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": value} }
}

// TestInTurns tells who fights over a field, and who does not.
func TestInTurns(t *testing.T) {
	type write struct{ actor, value string }
	turns := func(a, b write) []write { return []write{a, b, a, b, a, b} }
	for name, test := range map[string]struct {
		writes []write
		finds  bool
	}{
		"two operators":           {turns(write{"operator a", "1"}, write{"operator b", "2"}), true},
		"an operator and a user":  {turns(write{"operator", "1"}, write{"user", "2"}), true},
		"two users":               {turns(write{"user", "1"}, write{"kcm", "2"}), false},
		"an operator with itself": {turns(write{"operator", "1"}, write{"operator", "2"}), false},
		"of one mind":             {turns(write{"operator", "1"}, write{"user", "1"}), false},
		"of one mind in the end": {[]write{{"operator", "1"}, {"kcm", "0"}, {"user", "1"}, {"kcm", "0"}, {"operator", "1"},
			{"kcm", "0"}, {"user", "1"}}, false},
		"two rounds": {turns(write{"operator", "1"}, write{"user", "2"})[:5], false},
		"of many minds": {[]write{{"operator", "1"}, {"user", "2"}, {"operator", "3"}, {"user", "4"}, {"operator", "5"},
			{"user", "6"}}, false},
		"one gives in": {[]write{{"operator", "1"}, {"user", "2"}, {"operator", "1"}, {"user", "2"}, {"user", "1"},
			{"user", "2"}}, false},
		"three": {[]write{{"operator", "1"}, {"user", "2"}, {"operator", "1"}, {"user", "2"}, {"kcm", "1"}, {"user", "2"},
			{"operator", "1"}}, false},
	} {
		d := tell()
		before := thing("x", "u", saying("0"))
		for range fights { // an operator that has other things to write
			d.step("operator", 1, schedule.Update, "ConfigMap", thing("y", "y"), thing("y", "y"))
		}
		for _, w := range test.writes {
			after := thing("x", "u", saying(w.value))
			d.step(w.actor, 1, schedule.Update, "ConfigMap", before, after)
			before = after
		}
		if found, _ := findCompetingWriters(&d.Run); (found != nil) != test.finds {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

// TestReasonsToDelete tells what is a reason to delete what was just made, and what is none.
func TestReasonsToDelete(t *testing.T) {
	child := func() *corev1.ConfigMap { return thing("child", "c") }
	app := thing("app", "app", func(c *corev1.ConfigMap) { c.Generation = 1 })
	newer := thing("app", "app", func(c *corev1.ConfigMap) { c.Generation = 2 })
	for name, test := range map[string]struct {
		between func(*told)
		deleted func(*history.Record)
		finds   bool
	}{
		"none":                    {finds: true},
		"in the pass after next":  {deleted: func(r *history.Record) { r.Attempt = 3 }, finds: true},
		"three passes later":      {deleted: func(r *history.Record) { r.Attempt = 4 }},
		"much later":              {deleted: func(r *history.Record) { r.At = time.Hour }},
		"by another controller":   {deleted: func(r *history.Record) { r.Thread = 7 }},
		"the user changes it":     {between: func(d *told) { d.step("user", 0, schedule.Update, "App", app, newer) }},
		"the user labels it":      {between: func(d *told) { d.step("user", 0, schedule.Update, "App", app, app) }, finds: true},
		"kcm changes it":          {between: func(d *told) { d.step("kcm", 0, schedule.Update, "App", app, newer) }},
		"kcm changes another one": {between: func(d *told) { d.step("kcm", 0, schedule.Create, "Pod", nil, thing("p", "p")) }, finds: true},
		"the user makes another":  {between: func(d *told) { d.step("user", 0, schedule.Create, "Pod", nil, thing("p", "p")) }},
		"kcm writes its status": {between: func(d *told) {
			d.step("kcm", 0, schedule.Update, "App", app, newer).Event.Subresource = "status"
		}, finds: true},
		"it is relisted": {between: func(d *told) { d.step("operator", 1, schedule.Sync, "App", nil, app).Fault = schedule.Relist }},
	} {
		d := tell()
		d.step("operator", 1, schedule.Get, "App", nil, app)
		d.step("operator", 1, schedule.Create, "ConfigMap", nil, child())
		if test.between != nil {
			test.between(d)
		}
		d.step("operator", 2, schedule.Get, "ConfigMap", nil, child())
		r := d.step("operator", 2, schedule.Delete, "ConfigMap", child(), nil)
		if test.deleted != nil {
			test.deleted(r)
		}
		if found, _ := findSelfDelete(&d.Run); (found != nil) != test.finds {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

// TestDeliveredReason checks that what a cache shows only later is a reason, too.
func TestDeliveredReason(t *testing.T) {
	for _, delivered := range []bool{true, false} {
		d := tell()
		d.step("user", 0, schedule.Create, "Pod", nil, thing("p", "p"))
		d.step("operator", 1, schedule.Create, "ConfigMap", nil, thing("child", "c"))
		if delivered {
			r := d.step("operator", 0, schedule.Deliver, "Pod", nil, thing("p", "p"))
			r.Cause, r.Thread = 0, 9
		}
		d.step("operator", 2, schedule.Delete, "ConfigMap", thing("child", "c"), nil)
		if found, _ := findSelfDelete(&d.Run); (found == nil) != delivered {
			t.Errorf("delivered %v: found %+v", delivered, found)
		}
	}
}

// TestTakesAfter tells what says that an object was made out of a predecessor's.
func TestTakesAfter(t *testing.T) {
	of := func(uid string) func(*corev1.ConfigMap) {
		yes := true
		return func(c *corev1.ConfigMap) {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "App", Name: "app", UID: types.UID(uid), Controller: &yes}}
		}
	}
	labelled := func(key, value string) func(*corev1.ConfigMap) {
		return func(c *corev1.ConfigMap) { c.Labels = map[string]string{key: value} }
	}
	for name, test := range map[string]struct {
		owner func(*corev1.ConfigMap)
		read  string // the UID of the owner of what is read
		child string
		key   string
		value string
		poll  bool
		finds bool
	}{
		"a hash":                      {read: "old", value: "5f7c8d", finds: true},
		"a hash, of a poll":           {read: "old", value: "5f7c8d", poll: true, finds: true},
		"of its own":                  {read: "new", value: "5f7c8d"},
		"a word":                      {read: "old", value: "backend"},
		"a short one":                 {read: "old", value: "v1"},
		"what the owner says":         {read: "old", value: "8.0.31", owner: saying("8.0.31")},
		"what the child's name says":  {read: "old", value: "app-0", child: "of-app-0"},
		"what all of an app have":     {read: "old", value: "8.0.31", key: "app.kubernetes.io/version"},
		"of what it takes the place":  {read: "old", value: "5f7c8d", child: "set"},
		"as an operator labels twice": {read: "old", value: "5f7c8d", key: "other"},
	} {
		key, child, owner := test.key, test.child, test.owner
		if key == "" {
			key = "revision"
		}
		if child == "" {
			child = "child"
		}
		if owner == nil {
			owner = saying("x")
		}
		read := key
		if key == "other" {
			read = "revision"
		}
		d := tell()
		attempt := 2
		if test.poll {
			attempt = 1
		}
		r := d.step("operator", attempt, schedule.CachedGet, "ConfigMap", nil, thing("set", "s", of(test.read), labelled(read, test.value)))
		if test.poll {
			r.Repeats, r.LastAt = 1, time.Second
		}
		d.step("operator", 2, schedule.Get, "App", nil, thing("app", "new", owner))
		d.step("operator", 2, schedule.Create, "ConfigMap", nil, thing(child, "c", of("new"), labelled(key, test.value)))
		if found, _ := findDyingParent(&d.Run); (found != nil) != test.finds {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

// TestAfterAll checks that a run which has come to rest in its second half is no livelock.
func TestAfterAll(t *testing.T) {
	for _, late := range []bool{true, false} {
		d := tell()
		for range endlessCommits + 1 {
			d.step("operator", 1, schedule.Update, "ConfigMap", thing("x", "u"), thing("x", "u"))
		}
		d.History.Outcome, d.History.End = history.Inconclusive, time.Hour
		if late {
			d.History.End = endlessCommits
		}
		if found, _ := findLivelock(&d.Run); (found != nil) != late {
			t.Errorf("late %v: found %+v", late, found)
		}
	}
}

// TestSwallowed tells which failures matter.
func TestSwallowed(t *testing.T) {
	app := thing("app", "app")
	for name, test := range map[string]struct {
		verb    schedule.Verb
		code    int
		end     map[string]uint64 // of the objects, where 1 is as without faults
		refused bool              // it is without faults, too
		retry   bool
		also    func(*told)
		finds   bool
	}{
		"a lost create":                  {schedule.Create, 500, map[string]uint64{"App default/app": 1}, false, false, nil, true},
		"no answer":                      {schedule.Create, history.NoAnswer, map[string]uint64{"App default/app": 1}, false, false, nil, true},
		"one that client-go makes again": {schedule.Create, 500, map[string]uint64{"App default/app": 1}, false, true, nil, false},
		"one that always fails":          {schedule.Create, 500, map[string]uint64{"App default/app": 1}, true, false, nil, false},
		"the delete of nothing":          {schedule.Delete, 404, map[string]uint64{"App default/app": 1}, false, false, nil, false},
		"of what is as it should be": {schedule.Create, 500,
			map[string]uint64{"App default/app": 1, "ConfigMap default/child": 1, "Pod default/p": 1}, false, false, nil, false},
		"said before, not after": {schedule.Create, 500, map[string]uint64{"App default/app": 2}, false, false, nil, true},
		"said after": {schedule.Create, 500, map[string]uint64{"App default/app": 2}, false, false, func(d *told) {
			d.step("operator", 1, schedule.Update, "App", app, app)
		}, false},
	} {
		own := &State{Hash: 1, Objects: map[string]uint64{"App default/app": 1, "ConfigMap default/child": 1}}
		d := tell()
		d.step("operator", 1, schedule.Get, "App", nil, app)
		d.step("operator", 1, schedule.Update, "App", app, app)
		r := d.step("operator", 1, test.verb, "ConfigMap", nil, thing("child", "c"))
		r.Code, r.Committed, r.After, r.Retry = test.code, 0, nil, test.retry
		d.Baseline = &Baseline{States: []*State{own}, refused: map[refusal]bool{refusalOf(r): test.refused}}
		if test.also != nil {
			test.also(d)
		}
		d.state = &State{Hash: 2, Objects: test.end}
		d.History.Ends = []history.PassEnd{{Thread: 1, Attempt: 1, Record: len(d.History.Records) - 1}}
		if found, _ := findSwallowedError(&d.Run); (found != nil) != test.finds {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

// TestProgress tells which of many passes in a short time are no hot loop: those in which somebody else, or the passes themselves,
// bring something about.
func TestProgress(t *testing.T) {
	one, other := thing("x", "u", saying("1")), thing("x", "u", saying("2"))
	for name, test := range map[string]struct {
		pass  func(d *told, n int)
		finds bool
	}{
		"of nothing":            {func(*told, int) {}, true},
		"of this and that":      {func(d *told, n int) { d.swap("operator", n, one, other) }, true},
		"of one swap":           {func(d *told, n int) { d.swap("operator", 1, one, other) }, true},
		"of what others swap":   {func(d *told, n int) { d.swap("kcm", n, one, other) }, false},
		"with Leases of others": {func(d *told, n int) { d.step("kcm", 0, schedule.Create, "Lease", nil, thing("l", "l")) }, true},
		"of one thing each time": {func(d *told, n int) {
			d.step("operator", n, schedule.Create, "ConfigMap", nil, thing("x", string(rune(n))))
		}, false},
		"a second each": {func(d *told, _ int) {
			d.History.Records[len(d.History.Records)-1].At += time.Duration(len(d.History.Records)) * time.Second
		}, false},
	} {
		d := tell()
		for n := range 2 * hotPasses {
			d.step("operator", n, schedule.Dequeue, "", nil, thing("x", "u"))
			test.pass(d, n)
		}
		if found, _ := findHotLoop(&d.Run); (found != nil) != test.finds {
			t.Errorf("passes %s: found %+v", name, found)
		}
	}
}

// swap has somebody write one version, and then the other.
func (d *told) swap(actor string, n int, versions ...apiserver.Object) {
	d.step(actor, n, schedule.Update, "ConfigMap", versions[(n+1)%2], versions[n%2])
}

// TestLeftBehind tells what is an orphan of what the server still has.
func TestLeftBehind(t *testing.T) {
	owned := func(c *corev1.ConfigMap) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"}}
	}
	held := func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/kept"} }
	for name, test := range map[string]struct {
		made, stored func(*corev1.ConfigMap)
		change       func(*told, *apiserver.Kind)
		finds        bool
	}{
		"there":              {finds: true},
		"once had an owner":  {made: owned},
		"has found an owner": {stored: owned},
		"is terminating": {stored: held, change: func(d *told, kind *apiserver.Kind) {
			d.Server.Do(&apiserver.Request{Verb: schedule.Delete, Kind: kind, Namespace: "default", Name: "child"})
		}},
		"is gone": {change: func(d *told, kind *apiserver.Kind) {
			d.Server.Do(&apiserver.Request{Verb: schedule.Delete, Kind: kind, Namespace: "default", Name: "child"})
		}},
	} {
		d := tell()
		kind := d.Server.Kinds().ByName("ConfigMap")
		stored := thing("child", "")
		if test.stored != nil {
			test.stored(stored)
		}
		answer := d.Server.Do(&apiserver.Request{Verb: schedule.Create, Kind: kind, Namespace: "default", Name: "child", Object: stored})
		if answer.Code != 201 {
			t.Fatalf("%s: %d %v", name, answer.Code, answer.Err)
		}
		made := thing("child", string(answer.Object.GetUID()))
		if test.made != nil {
			test.made(made)
		}
		if test.change != nil {
			test.change(d, kind)
		}
		r := d.step("operator", 1, schedule.Create, "ConfigMap", nil, made)
		if got := d.leftBehind(r); got != test.finds {
			t.Errorf("%s: left behind: %v", name, got)
		}
	}
}

// TestAtRest checks that writes are churn only while nobody else changes anything.
func TestAtRest(t *testing.T) {
	same := thing("x", "u", saying("1"))
	for _, disturbed := range []bool{true, false} {
		d := tell()
		for n := range 2 * churnWrites {
			d.step("operator", n, schedule.Update, "ConfigMap", same, same).Committed = 0
			if disturbed && n%5 == 0 {
				d.step("user", 0, schedule.Create, "Pod", nil, thing("p", "p"))
			}
		}
		if found, _ := findWriteChurn(&d.Run); (found == nil) != disturbed {
			t.Errorf("disturbed %v: found %+v", disturbed, found)
		}
	}
}

// TestHandled tells which failures are no secret: what the pass returns, or makes again; and that of the resource's own status.
func TestHandled(t *testing.T) {
	app := thing("app", "app")
	for name, test := range map[string]struct {
		kind, returned string
		again          int // the code of the same write in the next pass; zero for none
		finds          bool
	}{
		"kept":                       {kind: "ConfigMap", finds: true},
		"returned":                   {kind: "ConfigMap", returned: "no"},
		"made again":                 {kind: "ConfigMap", again: 200},
		"made again in vain":         {kind: "ConfigMap", again: 500, finds: true},
		"of the resource itself":     {kind: "App", finds: true},
		"of the resource, made good": {kind: "App", again: 200},
	} {
		d := tell()
		d.step("operator", 1, schedule.Get, "App", nil, app)
		fails := func(attempt, code int) {
			r := d.step("operator", attempt, schedule.Update, test.kind, nil, app)
			r.Code, r.Committed, r.After = code, 0, nil
		}
		fails(1, 500)
		d.step("operator", 1, schedule.Update, "App", app, app).Event.Subresource = "status"
		end := history.PassEnd{Thread: 1, Attempt: 1, Record: len(d.History.Records) - 1, Error: test.returned}
		if test.again != 0 {
			fails(2, test.again)
		}
		d.Baseline = &Baseline{States: []*State{{Hash: 1, Objects: map[string]uint64{test.kind + " default/app": 1}}}}
		d.state = &State{Hash: 2, Objects: map[string]uint64{test.kind + " default/app": 2}}
		d.History.Ends = []history.PassEnd{end}
		if found, _ := findSwallowedError(&d.Run); (found != nil) != test.finds {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

// TestMasks tells which changes make another state of an object.
func TestMasks(t *testing.T) {
	base := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "0"}, Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: "A"}, {Type: "B"}}, ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}}}}
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		counts bool
	}{
		"nothing":        {func(*corev1.Pod) {}, false},
		"UID":            {func(p *corev1.Pod) { p.UID = "1" }, false},
		"generation":     {func(p *corev1.Pod) { p.Generation = 3 }, false},
		"message":        {func(p *corev1.Pod) { p.Status.Message = "x" }, false},
		"restarts":       {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 3 }, false},
		"time":           {func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(3, 0) }, false},
		"order":          {func(p *corev1.Pod) { c := p.Status.Conditions; c[0], c[1] = c[1], c[0] }, false},
		"reason":         {func(p *corev1.Pod) { p.Status.Reason = "x" }, true},
		"condition":      {func(p *corev1.Pod) { p.Status.Conditions[0].Status = "True" }, true},
		"label":          {func(p *corev1.Pod) { p.Labels = map[string]string{"message": "x"} }, true},
		"annotation":     {func(p *corev1.Pod) { p.Annotations = map[string]string{"generation": "x"} }, true},
		"count of edits": {func(p *corev1.Pod) { p.Annotations = map[string]string{maskedAnnotations[0]: "3"} }, false},
		"first of edits": {func(p *corev1.Pod) { p.Annotations = map[string]string{maskedAnnotations[0]: "1"} }, false},
		"specification":  {func(p *corev1.Pod) { p.Spec.NodeName = "n" }, true},
	} {
		changed := base()
		if name == "count of edits" { // an annotation that is there as well
			changed.Annotations = map[string]string{maskedAnnotations[0]: "2"}
		}
		before := fieldsOf(changed)
		test.change(changed)
		after := fieldsOf(changed)
		differs := false
		for _, path := range sortedKeys(before, after) {
			differs = differs || before[path] != after[path]
		}
		if differs != test.counts && name != "time" { // which the canonical hash leaves out
			t.Errorf("%s: counts %v", name, differs)
		}
	}
}

// TestNotAtRest checks that what may still be removed is no orphan.
func TestNotAtRest(t *testing.T) {
	d := tell()
	d.History.Outcome = history.Inconclusive
	made := d.Server.Do(&apiserver.Request{Verb: schedule.Create, Kind: d.Server.Kinds().ByName("ConfigMap"), Namespace: "default",
		Name: "app-child", Object: thing("app-child", "")})
	d.step("operator", 1, schedule.Create, "ConfigMap", nil, made.Object)
	if found, exercised := findOrphans(&d.Run); found != nil || exercised != 0 {
		t.Errorf("found %+v of %d", found, exercised)
	}
}
