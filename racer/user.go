package racer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// UserOptions configures a [User].
type UserOptions struct {
	// Steps are made one after the other, each when it is due and the one before it is over.
	Steps []UserStep
	// RetryEvery is the pause before a step is tried again for its RetryWhile; zero means one second.
	RetryEvery time.Duration
}

// UserStep is one thing a user does: exactly one of Create, Patch and Delete. It reads and changes nothing else, so a
// step value may be shared between runs.
type UserStep struct {
	// At is how long after the start of the run the step is due, in virtual time; with After set, how long after that
	// event.
	At time.Duration
	// After, if not nil, chooses the event that the step waits for. It may have happened before the step's turn came.
	After *schedule.Selector
	// RetryWhile has the step tried again and again as long as it fails for this reason, such as AlreadyExists. A step
	// that fails for any other reason is logged and left at that, as a script without `set -e` goes on.
	RetryWhile metav1.StatusReason

	Create *UserCreate
	Patch  *UserPatch
	Delete *UserDelete
}

// UserCreate creates a copy of an object.
type UserCreate struct {
	Kind   string // its name, as [sim.RacerEnv] knows it
	Object apiserver.Object
}

// UserPatch patches an object.
type UserPatch struct {
	Kind, Namespace, Name, Subresource string
	Type                               types.PatchType // empty means a JSON merge patch
	Data                               []byte
}

// UserDelete deletes an object.
type UserDelete struct {
	Kind, Namespace, Name string
	Options               metav1.DeleteOptions
}

// User plays somebody who runs a script against the cluster, one call a step.
type User struct {
	options  UserOptions
	env      sim.RacerEnv
	queue    sim.RacerQueue
	counters []schedule.Counter
	happened []bool // whether the event of a step's After was seen
	skipped  []int
	start    time.Time
	current  int  // the step whose turn it is
	waiting  bool // whether its timer or event is still due
}

// NewUser returns the user for one run.
func NewUser(options UserOptions) *User {
	options.RetryEvery = cmp.Or(options.RetryEvery, time.Second)
	u := &User{options: options, happened: make([]bool, len(options.Steps))}
	for _, step := range options.Steps {
		var counter schedule.Counter
		if step.After != nil {
			counter.Selector = *step.After
		}
		u.counters = append(u.counters, counter)
	}
	return u
}

var _ sim.Skipper = (*User)(nil)

// Skip implements [sim.Skipper]: the user does not make these steps, and makes the others when they are due all the same.
func (u *User) Skip(steps []int) { u.skipped = steps }

// Start implements [sim.Racer].
func (u *User) Start(env sim.RacerEnv) {
	u.env, u.start = env, env.Now()
	u.queue = env.Queue("script", 1, func(string) sim.Task { return &userTask{user: u} })
	u.arm()
}

// Finished reports whether every step is over.
func (u *User) Finished() bool { return u.current == len(u.options.Steps) }

// Observe tells the user of an event of the run. The engine calls it for every event, in order; without it, steps that
// wait for an event wait for ever.
func (u *User) Observe(event schedule.Event) {
	for i := range u.counters {
		if u.options.Steps[i].After == nil || u.happened[i] || !u.counters[i].Match(event) {
			continue
		}
		u.happened[i] = true
		if i == u.current && u.waiting {
			u.after(u.options.Steps[i].At)
		}
	}
}

// arm waits for whatever makes the current step due.
func (u *User) arm() {
	for slices.Contains(u.skipped, u.current) {
		u.current++
	}
	if u.Finished() {
		return
	}
	step := &u.options.Steps[u.current]
	switch {
	case step.After == nil:
		u.after(u.start.Add(step.At).Sub(u.env.Now()))
	case u.happened[u.current]:
		u.after(step.At)
	default:
		u.waiting = true
	}
}

func (u *User) after(d time.Duration) {
	u.waiting = false
	name := "step " + strconv.Itoa(u.current+1)
	if d <= 0 {
		u.queue.Add(name)
		return
	}
	u.env.After(name, d, func() { u.queue.Add(name) })
}

// userTask is one step of the script: a call, again while it fails for the step's RetryWhile.
type userTask struct {
	user   *User
	called bool
}

// Next implements [sim.Task].
func (t *userTask) Next(resp *apiserver.Response) sim.Action {
	u := t.user
	step := &u.options.Steps[u.current]
	if !t.called || resp == nil {
		request, err := u.request(step)
		if err != nil {
			u.env.Problem(err.Error())
			return t.finish()
		}
		t.called = true
		return sim.Call(request)
	}
	if err := failure(resp); err != nil {
		if step.RetryWhile != "" && apierrors.ReasonForError(err) == step.RetryWhile {
			return sim.Wait(u.options.RetryEvery)
		}
		u.env.Problem(fmt.Sprintf("step %d was refused: %v", u.current+1, err))
	}
	return t.finish()
}

func (t *userTask) finish() sim.Action {
	t.user.current++
	t.user.arm()
	return sim.Done()
}

func (u *User) request(step *UserStep) (*apiserver.Request, error) {
	at := func(kind, namespace, name string) (target, error) {
		k := u.env.Kind(kind)
		if k == nil {
			return target{}, fmt.Errorf("step %d: no kind %q in this scenario: name one of its kinds", u.current+1, kind)
		}
		return target{kind: k, namespace: namespace, name: name, manager: managerUser}, nil
	}
	switch {
	case step.Create != nil:
		obj := step.Create.Object
		t, err := at(step.Create.Kind, obj.GetNamespace(), obj.GetName())
		return t.create(obj.DeepCopyObject().(apiserver.Object)), err
	case step.Patch != nil:
		t, err := at(step.Patch.Kind, step.Patch.Namespace, step.Patch.Name)
		request := t.patch(cmp.Or(step.Patch.Type, types.MergePatchType), step.Patch.Data)
		request.Subresource = step.Patch.Subresource
		return request, err
	case step.Delete != nil:
		t, err := at(step.Delete.Kind, step.Delete.Namespace, step.Delete.Name)
		return t.delete(*step.Delete.Options.DeepCopy()), err
	default:
		return nil, fmt.Errorf("step %d: nothing to do: set create, patch or delete", u.current+1)
	}
}
